"""The files below `keys/` of the data folder: secrets, certificates, machines that joined."""
