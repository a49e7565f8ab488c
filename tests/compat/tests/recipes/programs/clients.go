// Sends requests with a client of Go, all at the same time. tests/compat/tests/recipes/programs.rs has the form of the lines.
//
// usage: clients net/http|retryablehttp plain|configured
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"recipes/retries"
)

const base = 10 * time.Millisecond

func client(timeout time.Duration) *http.Client {
	switch {
	case os.Args[1] == "net/http":
		return &http.Client{Timeout: timeout, Transport: &http.Transport{}}
	case os.Args[2] == "configured":
		made := retries.NewClient(timeout, base)
		made.Logger = nil
		return made.StandardClient()
	}
	made := retryablehttp.NewClient()
	made.HTTPClient.Timeout, made.Logger = timeout, nil
	return made.StandardClient()
}

func send(url, token, key string, timeout time.Duration, body string) (int, error) {
	request, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	answer, err := client(timeout).Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.ReadAll(answer.Body)
	return answer.StatusCode, err
}

func told(status int, err error) string {
	var network net.Error
	switch {
	case err == nil:
		return strconv.Itoa(status)
	case errors.As(err, &network) && network.Timeout():
		return "timeout"
	case errors.Is(err, syscall.ECONNRESET):
		return "connection reset"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "unexpected EOF"
	}
	return err.Error()
}

func main() {
	var calls sync.WaitGroup
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Split(lines.Text(), "\t")
		timeout, err := strconv.Atoi(words[4])
		if err != nil {
			log.Fatal(err)
		}
		calls.Go(func() {
			status, err := send(words[1], words[2], words[3], time.Duration(timeout)*time.Millisecond, words[5])
			fmt.Printf("%s\t%s\n", words[0], told(status, err))
		})
	}
	calls.Wait()
}
