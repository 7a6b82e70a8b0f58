"""Plans for machines without a broker, and the bundles that come back from them."""
