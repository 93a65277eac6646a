"""What people would pick instead, each as a program in the environment of `bench/requirements.txt`."""
