package web

import (
	"net/http"
	"slices"
	"strings"

	"millrace/internal/api"
)

// storagePage is what the page about the store shows.
type storagePage struct {
	api.Storage
	Server api.ServerInfo
	Ready  bool
	Checks []api.Check

	concerns []api.Concern
}

// Low reports whether the disk is nearly full.
func (p *storagePage) Low() bool {
	return slices.ContainsFunc(p.concerns, func(c api.Concern) bool { return c.Kind == api.ConcernSpace })
}

// SyncMean is how long a sync has taken on average, in seconds.
func (p *storagePage) SyncMean() float64 {
	if p.Syncs == 0 {
		return 0
	}
	return p.SyncSeconds / float64(p.Syncs)
}

// HitPercent is how often the cache had what was wanted.
func (p *storagePage) HitPercent() float64 {
	if all := p.CacheHits + p.CacheMisses; all > 0 {
		return 100 * float64(p.CacheHits) / float64(all)
	}
	return 0
}

func (h *handler) storage(v *visit) error {
	p := &storagePage{Storage: h.service.Storage(), Server: h.service.Server(), concerns: h.service.Live().Concerns}
	p.Ready, p.Checks = h.service.Health()
	return v.show(http.StatusOK, "storage", "Storage", p)
}

// activity lists what operators have done.
func (h *handler) activity(v *visit) error {
	return v.show(http.StatusOK, "activity", "Activity", h.service.Activities())
}

// settingsPage is what the effective configuration shows.
type settingsPage struct {
	Find   string
	Groups []settingGroup
}

// settingGroup are the settings whose keys begin alike.
type settingGroup struct {
	Name     string
	Settings []api.Setting
}

func (h *handler) settings(v *visit) error {
	p := settingsPage{Find: v.r.URL.Query().Get("find")}
	for _, s := range h.service.Settings() {
		text := strings.ToLower(s.Key + " " + s.Value + " " + s.Help)
		if !strings.Contains(text, strings.ToLower(p.Find)) {
			continue
		}
		name, _, _ := strings.Cut(s.Key, ".")
		if n := len(p.Groups); n == 0 || p.Groups[n-1].Name != name {
			p.Groups = append(p.Groups, settingGroup{Name: name})
		}
		last := &p.Groups[len(p.Groups)-1]
		last.Settings = append(last.Settings, s)
	}
	return v.show(http.StatusOK, "settings", "Settings", p)
}
