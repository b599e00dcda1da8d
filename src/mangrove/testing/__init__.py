"""What others need to test their own stores and code against Mangrove's promises."""
