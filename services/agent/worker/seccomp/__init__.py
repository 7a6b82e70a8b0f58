"""Filters of system calls (seccomp) for the processes of models and of inline Python."""
