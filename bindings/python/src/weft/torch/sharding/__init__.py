"""weft's shard managers under torch's autograd: see weft.torch.fully_shard."""
