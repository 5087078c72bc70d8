"""The register machine that runs functions which only compute."""
