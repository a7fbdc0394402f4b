package cli

// ignoreTerminal has nothing to ignore: Windows has no signals of terminals.
func ignoreTerminal() {}
