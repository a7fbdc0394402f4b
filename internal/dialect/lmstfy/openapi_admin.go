package lmstfy

import (
	"cmp"
	"net/http"
	"sync"
)

// openapiAdmin returns the document of the admin API.
var openapiAdmin = sync.OnceValue(func() []byte {
	d := document{
		title:    "LMSTFY admin",
		about:    "Tokens, limits and metrics. Without accounts in the configuration nothing is guarded.",
		security: object{"Account": object{"type": "http", "scheme": "basic"}},
		params:   adminParams(), schemas: adminSchemas(), paths: make(map[string]object),
		refusals: map[int]object{
			http.StatusBadRequest:   answerJSON("Something is wrong with the request.", schema("Error")),
			http.StatusUnauthorized: answer("Accounts are configured, and this is none of them."),
			http.StatusTooManyRequests: answerJSON("The address of the client has given too many wrong accounts.",
				schema("Error")),
			http.StatusInternalServerError: answerJSON("The server is at fault.", schema("Error")),
		},
	}
	operations := adminOperations()
	for i := range adminRoutes {
		r := &adminRoutes[i]
		o := operations[r.id]
		o.id = r.id
		var proofs []string
		codes := []int{http.StatusInternalServerError}
		if r.guarded {
			proofs = []string{"Account"}
			codes = append(codes, http.StatusUnauthorized, http.StatusTooManyRequests)
		}
		d.add(cmp.Or(r.method, http.MethodGet), r.path, &o, proofs, codes...)
	}
	return d.text()
})

func adminOperations() map[string]operation {
	body := object{"required": true, "content": content("application/json", schema("Limits"))}
	form := content("application/x-www-form-urlencoded", object{
		"type": "object", "properties": object{"description": textSchema, "token": textSchema},
	})
	refused := answerJSON("The limits are wrong; without both read and write they are echoed.",
		schema("Error"), schema("Limiter"))
	// checked adds that something may be wrong with the request.
	checked := func(answers map[int]object) map[int]object {
		answers[http.StatusBadRequest] = ref("responses", refusalName(http.StatusBadRequest))
		return answers
	}
	return map[string]operation{
		"addToken": {
			summary: "Make a token", params: []string{"pool", "description", "chosen"}, body: object{"content": form},
			answers: checked(map[int]object{http.StatusCreated: answerJSON("The token.", schema("Token"))}),
		},
		"listTokens": {
			summary: "List the tokens", params: []string{"pool"},
			answers: checked(found("Descriptions by token.", schema("Tokens"))),
		},
		"deleteToken": {summary: "Delete a token and its limits", answers: checked(done("Deleted, or not there."))},
		"addLimits": {
			summary: "Give a token limits", body: body, answers: map[int]object{
				http.StatusCreated: answerJSON("The limits.", schema("Limiter")), http.StatusBadRequest: refused,
			},
		},
		"setLimits": {
			summary: "Give a token other limits", body: body, answers: map[int]object{
				http.StatusOK: answerJSON("The limits.", schema("Limiter")), http.StatusBadRequest: refused,
			},
		},
		"getLimits": {summary: "Show the limits of a token", answers: map[int]object{
			http.StatusOK:       answerJSON("The limits.", schema("Limits")),
			http.StatusNotFound: answerJSON("It has none.", object{"type": "null"}),
		}},
		"deleteLimits": {summary: "Take the limits from a token", answers: found("Done.", schema("Message"))},
		"listLimits": {
			summary: "List all limits", params: []string{"force_update"},
			answers: found("The limits.", schema("LimitedTokens")),
		},
		"listPools": {
			summary: "List the pools",
			answers: found("Their names.", object{"type": "array", "items": textSchema, "minItems": 1}),
		},
		"info": {
			summary: "List the queues by namespace", params: []string{"pool"},
			answers: found("The queues; nothing for an unknown pool.", schema("Queues")),
		},
		"version": {summary: "Tell the version", answers: found("The version.", schema("Version"))},
		"metrics": {summary: "Prometheus metrics", answers: map[int]object{
			http.StatusOK: answerText("The metrics.", "text/plain"),
		}},
		"accessLog": {
			summary: "Tell whether requests are logged", answers: found("The status.", schema("Status")),
		},
		"setAccessLog": {
			summary: "Log requests or not", params: []string{"status"},
			answers: checked(found("The status.", schema("Status"))),
		},
		"openapi": {
			summary: "The document of the public API", answers: found("The document.", object{"type": "object"}),
		},
		"openapiAdmin": {summary: "This document", answers: found("The document.", object{"type": "object"})},
		"profiles": {summary: "The index of the Go profiler", answers: map[int]object{
			http.StatusOK: answerText("A page.", "text/html"),
		}},
		"profile": {summary: "A profile", answers: map[int]object{
			http.StatusOK:       answerText("The profile.", "application/octet-stream", "text/plain"),
			http.StatusNotFound: answerText("There is no such profile.", "text/plain"),
		}},
	}
}

func adminParams() object {
	status := parameter("query", "status", "", object{"enum": []string{"enable", "disable"}})
	status["required"] = true
	return object{
		"namespace": parameter("path", "namespace", "", textSchema),
		"token": parameter("path", "token",
			"The token, with its pool in front unless that is the default one: pool:token.", textSchema),
		"pool":        parameter("query", "pool", "", object{"type": "string", "default": poolDefault}),
		"profile":     parameter("path", "profile", "", textSchema),
		"description": parameter("query", "description", "Required here or in the body.", textSchema),
		"chosen": parameter("query", "token", "A token of your own choice.",
			object{"type": "string", "minLength": userTokenMin}),
		"force_update": parameter("query", "force_update", "", object{"type": "boolean"}),
		"status":       status,
	}
}

func adminSchemas() object {
	number := object{"type": "integer"}
	return object{
		"Error":   errorSchema,
		"Message": messageSchema,
		"Limits":  record(map[string]object{"read": number, "write": number, "interval": number}),
		"Limiter": record(map[string]object{"limiter": schema("Limits")}),
		"Token":   record(map[string]object{"token": textSchema}),
		"Tokens":  record(map[string]object{"tokens": {"type": "object", "additionalProperties": textSchema}}),
		"LimitedTokens": object{"type": "array", "items": record(map[string]object{
			"namespace": textSchema, "token": textSchema, "limiter": schema("Limits"),
		})},
		"Status": record(map[string]object{"status": {"enum": []string{"enabled", "disabled"}}}),
		"Version": record(map[string]object{
			"version": textSchema, "build_commit": textSchema, "build_date": textSchema,
		}),
		"Queues": object{
			"type": "object", "additionalProperties": object{"type": "array", "items": textSchema},
		},
	}
}
