"""``./run demo``: a whole deployment on this machine, filled with a year's first days, checked and shown."""
