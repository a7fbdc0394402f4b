package httpapi

import (
	"net/http"

	"millrace/internal/api"
)

func (c *call) listTokens() error {
	page, err := c.page()
	if err != nil {
		return err
	}
	return c.Result(c.Tokens(api.TokenFilter{Namespace: c.query("namespace"), Pool: c.query("pool")}, page))
}

func (c *call) addToken(in *api.TokenOptions) error {
	t, err := c.AddToken(c.R.Context(), *in)
	if err != nil {
		return err
	}
	c.W.Header().Set("Location", Prefix(c.R)+api.PathAPI+"/tokens/"+t.ID)
	return c.Answer(http.StatusCreated, t)
}

func (c *call) getToken() error { return c.Result(c.Token(c.Name("token"))) }

func (c *call) dropToken() error {
	return c.gone(c.DropToken(c.R.Context(), c.Name("token")))
}

func (c *call) setTokenLimits(in *api.TokenLimits) error {
	return c.Result(c.SetTokenLimits(c.R.Context(), c.Name("token"), in))
}

func (c *call) dropTokenLimits() error {
	return c.Result(c.SetTokenLimits(c.R.Context(), c.Name("token"), nil))
}
