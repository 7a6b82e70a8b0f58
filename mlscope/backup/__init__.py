"""Backups of a cluster in one file: its streams and buckets as they are, and its database's rows.

The log is read before the database, so that every row that a fact promises is in the backup. What
the log still holds of stored rows is stored again after a restore: markers drop it.
"""
