package web

import (
	"net/http"
	"net/url"

	"millrace/internal/api"
)

// bulkPage is what a bulk action shows.
type bulkPage struct {
	api.Bulk
	About   string
	Jobs    string // the address of the list of what it concerns
	Running bool
}

// Percent is how far it is.
func (p *bulkPage) Percent() int {
	switch {
	case !p.Running:
		return 100
	case p.Total == 0:
		return 0
	}
	return int(min(100, p.Examined*100/p.Total))
}

func bulkOf(b api.Bulk) *bulkPage {
	return &bulkPage{
		Bulk: b, About: filterText(&b.Filter), Jobs: address("/jobs", b.Filter.Query()),
		Running: b.State == api.BulkWaiting || b.State == api.BulkRunning,
	}
}

func (h *handler) bulk(v *visit) error {
	b, err := h.service.Bulk(v.r.PathValue("id"))
	if err != nil {
		return err
	}
	return v.show(http.StatusOK, "bulk", actionLabel(b.Action)+": all that match", bulkOf(b))
}

// bulksPage is what the list of bulk actions shows.
type bulksPage struct {
	links
	Bulks []*bulkPage
}

func (h *handler) bulks(v *visit) error {
	q := v.r.URL.Query()
	found, err := h.service.Bulks(api.PageOf{Cursor: q.Get("cursor")})
	if err != nil {
		return err
	}
	var p bulksPage
	for _, b := range found.Bulk {
		p.Bulks = append(p.Bulks, bulkOf(b))
	}
	p.links = paging("/bulk", nil, q, found.Next)
	return v.show(http.StatusOK, "bulks", "Bulk actions", p)
}

func (h *handler) stopBulk(v *visit) error {
	id := v.r.PathValue("id")
	b, err := h.service.CancelBulk(v.r.Context(), id)
	if err != nil {
		return err
	}
	notice := "Stopped. What was done before stays."
	if b.State != api.BulkCancelled {
		notice = "It had ended already."
	}
	return v.done(notice, "/bulk/"+url.PathEscape(id))
}
