"""Sockets, one module for each way of waiting. What is written over them exists once (_async), and is made into the other."""
