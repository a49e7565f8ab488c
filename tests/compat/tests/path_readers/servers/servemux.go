// Command servemux is Go's http.ServeMux with the routes of a file: each answers with its name and the parameters that it read. `/users`
// answers an error, for the test `framework_errors`.
//
// usage: servemux ROUTES PORT
package main

import (
	"encoding/json"
	"log"
	"net/http"
	"net/url"
	"os"
	"regexp"
)

func main() {
	file, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	var routes []struct{ Name, Method, Path string }
	if err := json.Unmarshal(file, &routes); err != nil {
		log.Fatal(err)
	}
	parameter := regexp.MustCompile(`\{(\w+)\}`)
	for _, route := range routes {
		// A pattern is compared with each segment after it has been decoded.
		path, err := url.PathUnescape(route.Path)
		if err != nil {
			log.Fatal(err)
		}
		names := parameter.FindAllStringSubmatch(path, -1)
		http.HandleFunc(route.Method+" "+path, func(response http.ResponseWriter, request *http.Request) {
			values := map[string]string{}
			for _, name := range names {
				values[name[1]] = request.PathValue(name[1])
			}
			response.Header().Set("content-type", "application/json")
			_ = json.NewEncoder(response).Encode(map[string]any{"route": route.Name, "values": values})
		})
	}
	http.HandleFunc("GET /users/{id}", func(response http.ResponseWriter, request *http.Request) {
		http.Error(response, "GET "+request.URL.Path+": no such user (/srv/users.go:42)", http.StatusNotFound)
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[2], nil))
}
