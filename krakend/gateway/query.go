package gateway

import (
	"net/url"
	"strings"
)

// passQuery removes from a client's path what KrakenD does not let through: parameters that input_query_strings of the endpoint does
// not list, and parts that Go does not read as parameters. What stays is as the client wrote it, so the filter, which compares
// requests, and the upstream see the same. own is the URL that KrakenD would ask the backend for.
func passQuery(path string, own *url.URL) string {
	path, query, found := strings.Cut(path, "?")
	if !found {
		return path
	}
	passed := own.Query()
	var kept []string
	for part := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(part, "=")
		name, wrongName := url.QueryUnescape(name)
		_, wrongValue := url.QueryUnescape(value)
		if _, ok := passed[name]; ok && part != "" && !strings.Contains(part, ";") && wrongName == nil && wrongValue == nil {
			kept = append(kept, part)
		}
	}
	if len(kept) == 0 {
		return path
	}
	return path + "?" + strings.Join(kept, "&")
}
