"""Files that an order needs: brought to this machine, checked against their checksums."""
