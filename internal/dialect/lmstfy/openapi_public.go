package lmstfy

import (
	"maps"
	"math"
	"net/http"
	"sync"

	"millrace/internal/dialect"
)

// openapiPublic returns the document of the public API.
var openapiPublic = sync.OnceValue(func() []byte {
	d := document{
		title: "LMSTFY",
		about: "Jobs over HTTP. Every answer has the header X-Request-ID; what is none of these calls is answered " +
			`with 404 and "api not found".`,
		security: object{
			"Header": object{"type": "apiKey", "in": "header", "name": "X-Token"},
			"Query":  object{"type": "apiKey", "in": "query", "name": "token"},
		},
		params: publicParams(), schemas: publicSchemas(), paths: make(map[string]object),
		refusals: map[int]object{
			http.StatusBadRequest: answerJSON("A name or a parameter is wrong.", schema("Error")),
			http.StatusUnauthorized: answerJSON("There is no token, or it is not one of this namespace.",
				schema("Error")),
			http.StatusNotFound:              answerJSON("There is no such pool or job.", schema("Error")),
			http.StatusRequestEntityTooLarge: answerJSON("A job is too large.", schema("Error")),
			http.StatusTooManyRequests: answerJSON("The token has made too many calls, or the address of the client "+
				"has given too many wrong tokens.", schema("Message"), schema("Error")),
			http.StatusInternalServerError: answerJSON("The server is at fault.", schema("Error")),
			http.StatusServiceUnavailable: answerJSON("The server is stopping, or has no space for new jobs.",
				schema("Error")),
		},
	}
	operations := publicOperations()
	for i := range routes[1:] {
		r, o := &routes[1+i], &operations[1+i]
		o.params = append(o.params, "token")
		codes := []int{
			http.StatusBadRequest, http.StatusNotFound, http.StatusInternalServerError, http.StatusServiceUnavailable,
		}
		var proofs []string
		if !r.open {
			proofs = []string{"Header", "Query"}
			codes = append(codes, http.StatusUnauthorized, http.StatusTooManyRequests)
		}
		if o.body != nil || r.side == sideRead { // whoever waits for a job has its body read, too
			codes = append(codes, http.StatusRequestEntityTooLarge)
		}
		d.add(r.method, r.path, o, proofs, codes...)
	}
	d.add(http.MethodGet, openapiPath, &operation{
		id: "openapi", summary: "This document", answers: found("The document.", object{"type": "object"}),
	}, nil)
	return d.text()
})

func publicOperations() [routeCount]operation {
	publishing := func() []string { return []string{"delay", "ttl", "tries", "group", headerVersion, headerTrace} }
	published := map[int]object{http.StatusCreated: answerJSON("Published.", schema("Published"))}
	anyBytes := object{"description": "The job: any bytes.", "content": content("*/*", object{})}
	deliveries := object{"type": "array", "items": schema("Delivery"), "minItems": 1, "maxItems": countMax}
	return [routeCount]operation{
		routePublish: {
			id: "publish", summary: "Publish a job", params: publishing(), body: anyBytes, answers: published,
		},
		routeBulk: {
			id: "publishBulk", summary: "Publish up to 64 jobs, all or none", params: publishing(),
			body: object{
				"required": true, "description": "The jobs: each element as it is spelled.",
				"content": content("application/json", object{"type": "array", "minItems": 1, "maxItems": bulkMax}),
			},
			answers: map[int]object{http.StatusCreated: answerJSON("Published.", schema("PublishedAll"))},
		},
		routeRepublish: {
			id: "republish", summary: "Delete a job and publish another in one step", params: publishing(),
			body: anyBytes, answers: published,
		},
		routeConsume: {
			id: "consume", summary: "Take jobs, or wait for one", params: []string{"ttr", "timeout", "count"},
			answers: map[int]object{
				http.StatusOK: answerJSON("One job, or an array of jobs if count is 2 or more.",
					schema("Delivery"), deliveries),
				http.StatusNotFound: answerJSON("Nothing is ready, or there is no such pool.",
					schema("Empty"), schema("Error")),
			},
		},
		routeDelete: {
			id: "delete", summary: "Delete a job, which also acknowledges it",
			answers: done("Deleted, or not there."),
		},
		routePeek:    {id: "peek", summary: "Show the next job", answers: found("The job.", schema("Job"))},
		routePeekJob: {id: "peekJob", summary: "Show a job", answers: found("The job.", schema("Job"))},
		routeSize:    {id: "size", summary: "Count the ready jobs", answers: found("The count.", schema("Size"))},
		routeDestroy: {id: "destroy", summary: "Drop all ready jobs", answers: done("Dropped.")},
		routeDead: {
			id: "peekDeadLetter", summary: "Count the dead jobs and name the first",
			answers: found("The dead letter.", schema("DeadLetter")),
		},
		routeRespawn: {
			id: "respawn", summary: "Make dead jobs ready again, with one try",
			params: []string{"limit", "respawn_ttl"}, answers: found("How many.", schema("Respawned")),
		},
		routeDropDead: {
			id: "deleteDeadLetter", summary: "Delete dead jobs", params: []string{"limit"}, answers: done("Deleted."),
		},
		routeDeadSize: {
			id: "deadLetterSize", summary: "Count the dead jobs", answers: found("The count.", schema("Size")),
		},
	}
}

func publicParams() object {
	number := func(name, about string, least, most, standard uint64) object {
		return parameter("query", name, about,
			object{"type": "integer", "minimum": least, "maximum": most, "default": standard})
	}
	def := StandardDefaults
	return object{
		"namespace": parameter("path", "namespace", "",
			object{"type": "string", "pattern": "^[-_0-9A-Za-z]+$", "maxLength": nameMax}),
		"queue": parameter("path", "queue", "A name; to consume, several separated by commas.",
			object{"type": "string", "pattern": "^[-_,0-9A-Za-z]+$"}),
		"job_id": parameter("path", "job_id", "", textSchema),
		"token":  parameter("query", "token", "The token, unless the header X-Token has it.", textSchema),
		"delay":  number("delay", "Seconds until the job is ready.", 0, secondsMax, uint64(def.Delay)),
		"ttl":    number("ttl", "Seconds the job lives from now on; 0 is for ever.", 0, secondsMax, uint64(def.TTL)),
		"tries":  number("tries", "How often the job may be delivered.", 1, triesMax, uint64(def.Tries)),
		"group": parameter("query", "group", "The group of the job: jobs of a group run one at a time, or take "+
			"turns with other groups in a fair queue.", object{"type": "string", "maxLength": dialect.GroupMax}),
		"ttr": number("ttr", "Seconds a consumer has for a job before it is ready again.", 0, secondsMax,
			uint64(def.TTR)),
		"timeout": number("timeout", "Seconds to wait for a job.", 0, secondsMax, uint64(def.Timeout)),
		"count":   number("count", "Most jobs to take; from 2 on the answer is an array.", 1, countMax, 1),
		"respawn_ttl": number("ttl", "Seconds the jobs live from now on; 0 is for ever.", 0, math.MaxInt64,
			respawnTTL),
		"limit": number("limit", "Most dead jobs, the first to have died first.", 1, limitMax, 1),
		headerVersion: parameter("header", headerVersion, `"yes" makes attributes of the headers Job-Attr-*.`,
			textSchema),
		headerTrace: parameter("header", headerTrace, "The trace of the producer, as W3C Trace Context has it. What "+
			"is none is ignored.", textSchema),
	}
}

func publicSchemas() object {
	message := func(text string) object { return object{"const": text} }
	job := map[string]object{
		"namespace": textSchema, "queue": textSchema, "job_id": textSchema,
		"data": {"type": "string", "contentEncoding": "base64"},
		"ttl":  {"type": "integer", "minimum": 0, "description": "Seconds left, rounded up; 0 is for ever."},
		"elapsed_ms": {
			"type": "integer", "minimum": 0, "description": "Milliseconds since the job was published.",
		},
		"remain_tries": {"type": "integer", "minimum": 0, "maximum": math.MaxUint16},
		"attributes":   {"type": []string{"object", "null"}, "additionalProperties": textSchema},
		headerTrace:    {"type": "string", "description": "The trace that it was published with, if any."},
	}
	delivery := maps.Clone(job)
	delivery["msg"] = message("new job")
	return object{
		"Error":     errorSchema,
		"Message":   messageSchema,
		"Published": record(map[string]object{"msg": message("published"), "job_id": textSchema}),
		"PublishedAll": record(map[string]object{
			"msg":     message("published"),
			"job_ids": {"type": "array", "items": textSchema, "minItems": 1, "maxItems": bulkMax},
		}),
		"Job":      record(job, headerTrace),
		"Delivery": record(delivery, headerTrace),
		"Empty":    record(map[string]object{"msg": message("no job available")}),
		"Size":     record(map[string]object{"namespace": textSchema, "queue": textSchema, "size": countSchema}),
		"DeadLetter": record(map[string]object{
			"namespace": textSchema, "queue": textSchema, "deadletter_size": countSchema, "deadletter_head": textSchema,
		}),
		"Respawned": record(map[string]object{"msg": message("respawned"), "count": countSchema}),
	}
}
