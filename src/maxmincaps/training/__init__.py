"""Chapter 4: from a recipe to a trained network and its record."""
