"""Pictures for papers: vector files that read in grey and for colour-blind eyes."""
