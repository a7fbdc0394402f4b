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

func (c *call) addToken() error {
	var in api.TokenOptions
	if err := c.Decode(&in); err != nil {
		return err
	}
	t, err := c.AddToken(c.R.Context(), in)
	if err != nil {
		return err
	}
	c.W.Header().Set("Location", Prefix(c.R)+api.PathAPI+"/tokens/"+t.ID)
	return c.Answer(http.StatusCreated, t)
}

func (c *call) getToken() error { return c.Result(c.Token(c.Name("token"))) }

func (c *call) dropToken() error {
	if err := c.DropToken(c.R.Context(), c.Name("token")); err != nil {
		return err
	}
	c.W.WriteHeader(http.StatusNoContent)
	return nil
}

func (c *call) setTokenLimits() error {
	var in api.TokenLimits
	if err := c.Decode(&in); err != nil {
		return err
	}
	return c.Result(c.SetTokenLimits(c.R.Context(), c.Name("token"), &in))
}

func (c *call) dropTokenLimits() error {
	return c.Result(c.SetTokenLimits(c.R.Context(), c.Name("token"), nil))
}
