"""Files as arrays: writing, reading, opening, inspecting."""
