"""What every protocol target shares, so that a protocol's own folder holds nothing but its protocol."""
