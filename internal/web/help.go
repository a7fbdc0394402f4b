package web

import (
	"net/http"

	"millrace/internal/api"
)

// helpWord is a word of the pages and what it means.
type helpWord struct{ Name, About string }

// helpPage explains the words.
type helpPage struct{ States, Actions []helpWord }

// stateHelp says what the states are, in the order in which pages show them.
var stateHelp = map[string]string{
	"ready": "May be fetched by a worker.", "running": "Was fetched, and has neither been acked nor failed.",
	"scheduled": "Waits for its time.",
	"retrying":  "Has failed, and waits for its next attempt.", "blocked": "Waits for other jobs to succeed.",
	"buried": "Was set aside until it is kicked.",
	"dead":   "Has no attempts left, or was killed. It is kept for you to look at.",
	"failed": "Has no attempts left, and is kept with its result.",
	"done":   "Has succeeded, and is kept with its result.",
}

// actionHelp says what actions do.
var actionHelp = map[api.Action]string{
	api.ActionRetry:   "Makes a retrying, failed or dead job ready. Its attempts go on counting.",
	api.ActionRespawn: "Makes a dead or failed job ready as if it were new.",
	api.ActionRun:     "Makes a scheduled job ready now.", api.ActionKick: "Makes a buried job ready.",
	api.ActionBury: "Sets a job aside until it is kicked.",
	api.ActionMove: "Moves a job to another queue.", api.ActionKill: "Gives up on a job: it is dead, and kept.",
	api.ActionCancel: "Deletes a job that has not come to an end.", api.ActionDelete: "Deletes a job in any state.",
}

func (h *handler) help(v *visit) error {
	var p helpPage
	for _, s := range api.ShownStates() {
		p.States = append(p.States, helpWord{s, stateHelp[s]})
	}
	for _, a := range actionsFor(nil) {
		p.Actions = append(p.Actions, helpWord{actionLabel(a), actionHelp[a]})
	}
	return v.show(http.StatusOK, "help", "Help", p)
}
