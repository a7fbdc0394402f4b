package job

// Rest returns the command that goes on where one that has left some jobs over stopped,
// as its result says.
func Rest(cmd Command, res *Result) Command {
	left := res.Left
	switch c := cmd.(type) {
	case *Kick:
		rest := *c
		rest.Count = left
		if c.From == KickEither { // it goes on with what it has begun with
			rest.From = KickBuried
			if res.State != Buried {
				rest.From = KickWaiting
			}
		}
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
