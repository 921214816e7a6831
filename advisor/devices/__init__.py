"""What a device is: its attributes, the memory class that follows from them, and the catalogue."""
