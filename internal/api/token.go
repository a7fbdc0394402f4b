package api

// Token lets clients use a namespace.
type Token struct {
	// Names it in requests as long as it is there. The token itself is told only to who makes it.
	ID        string `json:"id"`
	Namespace string `json:"namespace"`
	Pool      string `json:"pool"`
	Masked    string `json:"masked"` // the end of the token
	// False if there are only limits, for a token that is gone or has not been made.
	Exists        bool         `json:"exists"`
	Description   string       `json:"description"`
	Limits        *TokenLimits `json:"limits,omitempty"`
	RefusedReads  uint64       `json:"refused_reads"`  // calls that its limits have refused since the server started
	RefusedWrites uint64       `json:"refused_writes"` // calls that its limits have refused since the server started

	// Secret is the token itself.
	Secret string `json:"-"`
}

// TokenLimits are how many calls that read and that write a token may make within an interval; zero is no limit.
type TokenLimits struct {
	Reads    int64 `json:"reads"`  // calls that consume; zero is no limit
	Writes   int64 `json:"writes"` // calls that publish; zero is no limit
	Interval int64 `json:"interval_seconds" api:"minimum=1"`
}

// TokenFilter says which tokens are meant. What is empty is all.
type TokenFilter struct {
	Namespace string `query:"namespace"` // only of this namespace
	Pool      string `query:"pool"`      // only of this pool
}

// TokenPage is a part of the list of tokens.
type TokenPage struct {
	Required bool     `json:"required"` // clients need a token
	Pools    []string `json:"pools"`
	Tokens   []Token  `json:"tokens"`
	Next     string   `json:"next,omitempty"`
}

// NewToken is a token that has just been made.
type NewToken struct {
	Token
	// The token itself, as clients must write it. It is not told again.
	Text string `json:"token"`
}

// TokenOptions say what token to make.
type TokenOptions struct {
	Namespace   string `json:"namespace"`
	Pool        string `json:"pool,omitempty"`  // left out: the usual one
	Description string `json:"description"`     // what it is for
	Token       string `json:"token,omitempty"` // left out: one that nobody can guess
}
