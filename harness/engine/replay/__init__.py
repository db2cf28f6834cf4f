"""What is done with stored runs and histories: run again, shrunk, judged though another tool recorded them."""
