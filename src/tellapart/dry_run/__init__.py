"""What a command would do, find wrong and cost, tried without writing anything."""
