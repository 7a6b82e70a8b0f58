"""The model catalog, generated from the metadata that model packages themselves carry.

`python -m tools.catalog torchvision timm keras --out manifests/models` writes one manifest a model.
Nothing in it is measured here: addresses, checksums, sizes and accuracies are the packages' own.
"""
