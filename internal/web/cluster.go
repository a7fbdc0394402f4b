package web

import (
	"net/http"

	"millrace/internal/api"
)

// clusterPage is what the page about the cluster shows.
type clusterPage struct{ api.ClusterStatus }

// Missing are the nodes that cannot be reached.
func (p clusterPage) Missing() []api.ClusterNode {
	var list []api.ClusterNode
	for _, n := range p.Nodes {
		if !n.Reachable {
			list = append(list, n)
		}
	}
	return list
}

func (h *handler) cluster(v *visit) error {
	st, err := h.service.Cluster()
	if err != nil {
		return err
	}
	return v.show(http.StatusOK, "cluster", "Cluster", clusterPage{st})
}

// transfer has another node lead.
func (h *handler) transfer(v *visit) error {
	if !v.confirmed() {
		return v.confirm(confirmPage{
			Question: "Have another node lead?", Button: "Have another node lead",
			About: "All clients are cut off for a moment, and find the new leader when they connect again. So is " +
				"this page: load it again after a second.",
		})
	}
	if _, err := h.service.Transfer(v.r.Context()); err != nil {
		return err
	}
	return v.done("Another node will lead in a moment.", "/cluster")
}
