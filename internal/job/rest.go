package job

// Rest returns the command that goes on where one that has left some jobs over stopped.
func Rest(cmd Command, left int) Command {
	switch c := cmd.(type) {
	case *Kick:
		rest := *c
		rest.Count = left
		return &rest
	case *Respawn:
		rest := *c
		rest.Limit = left
		return &rest
	case *Purge:
		rest := *c
		rest.Limit = left
		return &rest
	case *ReleaseAll:
		rest := *c
		rest.Limit = left
		return &rest
	default: // deals with what it names
		return cmd
	}
}
