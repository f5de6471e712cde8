"""`./dev validate`: training has the same bits under every strategy; see README.md."""
