model = torch.nn.Sequential(torch.nn.Conv2d(3, 24, 7, stride=8), torch.nn.BatchNorm2d(24), torch.nn.ReLU(),
                            torch.nn.Conv2d(24, 32, 3, stride=4), torch.nn.BatchNorm2d(32), torch.nn.ReLU(),
                            torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, 64)).eval()
