package api

// Token lets clients use a namespace.
type Token struct {
	// ID names it in requests as long as it is there. The token itself is told only to who makes it.
	ID        string `json:"id"`
	Namespace string `json:"namespace"`
	Pool      string `json:"pool"`
	Masked    string `json:"masked"` // its end
	// Exists is false if there are only limits, for a token that is gone or has not been made.
	Exists      bool         `json:"exists"`
	Description string       `json:"description"`
	Limits      *TokenLimits `json:"limits,omitempty"`
	// How many calls its limits have refused since the server started.
	RefusedReads  uint64 `json:"refused_reads"`
	RefusedWrites uint64 `json:"refused_writes"`

	// Secret is the token itself.
	Secret string `json:"-"`
}

// TokenLimits are how many calls that read and that write a token may make within an interval; zero is no limit.
type TokenLimits struct {
	Reads    int64 `json:"reads"`
	Writes   int64 `json:"writes"`
	Interval int64 `json:"interval_seconds"`
}

// TokenFilter says which tokens are meant. What is empty is all.
type TokenFilter struct {
	Namespace string
	Pool      string
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
	// Text is the token itself, as clients must write it. It is not told again.
	Text string `json:"token"`
}

// TokenOptions say what token to make.
type TokenOptions struct {
	Namespace   string `json:"namespace"`
	Pool        string `json:"pool"` // empty: the usual one
	Description string `json:"description"`
	Token       string `json:"token"` // empty: one that nobody can guess
}
