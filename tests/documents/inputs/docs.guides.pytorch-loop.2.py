model, optimizer = fresh()
