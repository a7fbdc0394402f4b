package httpapi

import (
	"net/http"

	"millrace/internal/api"
	"millrace/internal/operator"
)

// handlers serve the calls of the table of routes, by their ids.
var handlers = map[string]func(*call) error{
	"getServer":          (*call).getServer,
	"listNamespaces":     paged((*operator.Service).Namespaces),
	"listQueues":         (*call).listQueues,
	"getQueue":           (*call).getQueue,
	"removeQueue":        (*call).removeQueue,
	"pauseQueue":         decoded((*call).pauseQueue),
	"resumeQueue":        (*call).resumeQueue,
	"getLimits":          (*call).getLimits,
	"setLimits":          decoded((*call).setLimits),
	"getFairness":        (*call).getFairness,
	"setFairness":        decoded((*call).setFairness),
	"purgeQueue":         decoded((*call).purgeQueue),
	"respawnQueue":       (*call).respawnQueue,
	"listJobs":           (*call).listJobs,
	"getJob":             (*call).getJob,
	"getBody":            (*call).getBody,
	"actOnJob":           (*call).actOnJob,
	"actOnJobs":          decoded((*call).actOnJobs),
	"listBulk":           paged((*operator.Service).Bulks),
	"startBulk":          decoded((*call).startBulk),
	"getBulk":            (*call).getBulk,
	"forgetBulk":         (*call).forgetBulk,
	"cancelBulk":         (*call).cancelBulk,
	"listWorkers":        paged((*operator.Service).Workers),
	"signalWorkers":      decoded((*call).signalWorkers),
	"listConnections":    (*call).listConnections,
	"listBatches":        (*call).listBatches,
	"getBatch":           (*call).getBatch,
	"listCron":           (*call).listCron,
	"getCron":            (*call).getCron,
	"setCron":            decoded((*call).setCron),
	"dropCron":           (*call).dropCron,
	"pauseCron":          func(c *call) error { return c.pauseCron(true) },
	"resumeCron":         func(c *call) error { return c.pauseCron(false) },
	"runCron":            (*call).runCron,
	"nextCron":           (*call).nextCron,
	"listTokens":         (*call).listTokens,
	"addToken":           decoded((*call).addToken),
	"getToken":           (*call).getToken,
	"dropToken":          (*call).dropToken,
	"setTokenLimits":     decoded((*call).setTokenLimits),
	"dropTokenLimits":    (*call).dropTokenLimits,
	"getStorage":         (*call).getStorage,
	"getSettings":        (*call).getSettings,
	"getLive":            (*call).getLive,
	"streamEvents":       (*call).streamEvents,
	"getHistory":         (*call).getHistory,
	"getParts":           (*call).getParts,
	"getFailures":        (*call).getFailures,
	"getTypes":           (*call).getTypes,
	"getTypeHistory":     (*call).getTypeHistory,
	"getActivity":        (*call).getActivity,
	"getDocument":        (*call).getDocument,
	"getLivez":           (*call).getLivez,
	"getReadyz":          (*call).getReadyz,
	"getHealthz":         (*call).getReadyz,
	"makeBackup":         decoded((*call).makeBackup),
	"exportJobs":         (*call).exportJobs,
	"getImport":          (*call).getImport,
	"importJobs":         (*call).importJobs,
	"listMigrations":     (*call).listMigrations,
	"migrateJobs":        (*call).migrateJobs,
	"forgetMigration":    (*call).forgetMigration,
	"getCluster":         (*call).getCluster,
	"transferLeadership": (*call).transferLeadership,
	"joinCluster":        decoded((*call).joinCluster),
	"leaveCluster":       (*call).leaveCluster,
	"listHooks":          (*call).listHooks,
	"getHook":            (*call).getHook,
	"setHook":            decoded((*call).setHook),
	"dropHook":           (*call).dropHook,
}

// decoded handles a call with what its request holds.
func decoded[T any](handle func(*call, *T) error) func(*call) error {
	return func(c *call) error {
		in := new(T)
		if err := c.Decode(in); err != nil {
			return err
		}
		return handle(c, in)
	}
}

// paged handles a call for a page of a list.
func paged[T any](list func(*operator.Service, api.PageOf) (T, error)) func(*call) error {
	return func(c *call) error {
		page, err := c.page()
		if err != nil {
			return err
		}
		return c.Result(list(c.Service, page))
	}
}

// gone answers that something was removed, unless there is an error.
func (c *call) gone(err error) error {
	if err == nil {
		c.W.WriteHeader(http.StatusNoContent)
	}
	return err
}
