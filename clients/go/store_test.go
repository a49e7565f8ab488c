package idempotency

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func newFileStore(t *testing.T) *FileStore {
	t.Helper()
	store, err := NewFileStore(filepath.Join(t.TempDir(), "a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func sample(key string) Record {
	return Record{
		Owner: ann, Key: key, Method: "POST", URL: "https://api.test/a?b=<&>", Host: "other.test", Header: http.Header{"X": {"1", "<ü>"}},
		Body: []byte{0, 255, '<', '\n'}, KeptAt: time.Date(2026, 11, 24, 12, 0, 0, 5, time.UTC),
	}
}

// all returns what the store yields, by its keys, and the errors.
func all(store Store) (map[string]Record, []error) {
	records, failures := map[string]Record{}, []error{}
	for record, err := range store.All() {
		if err != nil {
			failures = append(failures, err)
			continue
		}
		records[record.Key] = record
	}
	return records, failures
}

func eachStore(t *testing.T, test func(t *testing.T, store Store)) {
	t.Run("memory", func(t *testing.T) { test(t, NewMemoryStore()) })
	t.Run("file", func(t *testing.T) { test(t, newFileStore(t)) })
}

func TestStores(t *testing.T) {
	eachStore(t, func(t *testing.T, store Store) {
		keys := []string{"a", "A", "../a", "a/b", strings.Repeat("k", 255), `"quoted"`}
		for _, key := range keys {
			if err := store.Put(sample(key)); err != nil {
				t.Fatal(err)
			}
		}
		for _, key := range keys {
			record, found, err := store.Get(ann, key)
			wantEqual(t, "record", fmt.Sprint(record, found, err), fmt.Sprint(sample(key), true, nil))
		}
		records, failures := all(store)
		wantEqual(t, "records and errors", []int{len(records), len(failures)}, []int{len(keys), 0})
		changed := sample("a")
		changed.Method = "PATCH"
		if err := store.Put(changed); !errors.Is(err, ErrRecordExists) {
			t.Error(err)
		}
		record, _, _ := store.Get(ann, "a")
		wantEqual(t, "method", record.Method, "POST")
		for range 2 {
			wantEqual(t, "delete", store.Delete(ann, "a"), nil)
		}
		_, found, err := store.Get(ann, "a")
		wantEqual(t, "found after the delete", fmt.Sprint(found, err), "false <nil>")
		for range store.All() {
			break // A loop may end early.
		}
	})
}

func TestOneKeyOfSeveralOwners(t *testing.T) {
	eachStore(t, func(t *testing.T, store Store) {
		owners := []string{ann, "Ann", bob, "1:a", "../ä", strings.Repeat("x", 500)}
		for _, owner := range owners {
			record := sample("k")
			record.Owner, record.Body = owner, []byte(owner)
			wantEqual(t, "put", store.Put(record), nil)
		}
		for _, owner := range owners {
			record, found, err := store.Get(owner, "k")
			wantEqual(t, "record", fmt.Sprint(record.Owner, string(record.Body), found, err), fmt.Sprint(owner, owner, true, nil))
			wantEqual(t, "delete", store.Delete(owner, "k"), nil)
		}
	})
}

// What the caller changes later does not change what is kept.
func TestMemoryStoreCopies(t *testing.T) {
	store := NewMemoryStore()
	record := sample("a")
	_ = store.Put(record)
	got, _, _ := store.Get(ann, "a")
	record.Body[0], got.Body[1] = 'x', 'x'
	got.Header.Set("X", "changed")
	got, _, _ = store.Get(ann, "a")
	wantEqual(t, "record", got, sample("a"))
}

func TestStoresWithSeveralThreads(t *testing.T) {
	eachStore(t, func(t *testing.T, store Store) {
		var group sync.WaitGroup
		for thread := range 8 {
			group.Go(func() {
				for number := range 25 {
					key := fmt.Sprint(thread, "-", number)
					err := store.Put(sample(key))
					if shared := store.Put(sample("of all")); !errors.Is(shared, ErrRecordExists) {
						err = errors.Join(err, shared)
					}
					if number%2 == 0 {
						err = errors.Join(err, store.Delete(ann, key), store.Delete(ann, "of all"))
					}
					if _, failures := all(store); err != nil || len(failures) > 0 {
						t.Error(err, failures)
					}
				}
			})
		}
		group.Wait()
		_ = store.Delete(ann, "of all")
		records, _ := all(store)
		wantEqual(t, "records", len(records), 8*12)
	})
}

// A second store in the folder stands for another process.
func TestFileStoreOfTwoProcesses(t *testing.T) {
	one := newFileStore(t)
	other, err := NewFileStore(one.folder)
	if err != nil {
		t.Fatal(err)
	}
	_ = one.Put(sample("a"))
	record, found, _ := other.Get(ann, "a")
	wantEqual(t, "record", fmt.Sprint(record, found), fmt.Sprint(sample("a"), true))
	for record := range one.All() {
		_ = other.Delete(ann, record.Key)
	}
	wantEqual(t, "delete again", one.Delete(ann, "a"), nil)
}

// late is a store in which another process puts a record between the Get and the Put of this one.
type late struct {
	Store
	other func()
}

func (l late) Put(record Record) error {
	l.other()
	return l.Store.Put(record)
}

func TestTwoProcessesWithTheSameKeyAtTheSameTime(t *testing.T) {
	for name, body := range map[string]string{"same request": "body", "other request": "other body"} {
		t.Run(name, func(t *testing.T) {
			store := newFileStore(t)
			client, upstream, clock := newTestClient(t, Options{}, says(200))
			record := recordOf(t, client, post(t, body))
			record.KeptAt = clock.now().Add(-22 * time.Hour)
			client.options.Store = late{store, func() { _ = store.Put(record) }}
			if body == "body" {
				answerOf(t, client, post(t, "body"))
				wantEqual(t, "pending", pendingKeys(t, client), []string{})
				return
			}
			wantEqual(t, "kept", failureOf(t, client, post(t, "body"), ErrInvalidRequest).Kept, true)
			wantEqual(t, "requests", len(upstream.seen), 0)
			kept, _, err := store.Get(ann, testKey)
			wantEqual(t, "the other's record", fmt.Sprint(string(kept.Body), err), fmt.Sprint(body, nil))
		})
	}
}

// The same request that another process has kept meanwhile is as old as it is there.
func TestTheTimeOfAnotherProcessCounts(t *testing.T) {
	store := newFileStore(t)
	client, upstream, clock := newTestClient(t, Options{}, says(200))
	record := recordOf(t, client, post(t, "body"))
	record.KeptAt = clock.now().Add(-23 * time.Hour)
	client.options.Store = late{store, func() { _ = store.Put(record) }}
	failureOf(t, client, post(t, "body"), ErrExpired)
	wantEqual(t, "requests", len(upstream.seen), 0)
	wantEqual(t, "pending", pendingKeys(t, client), []string{testKey})
}

// A Put that fails leaves nothing of its own, and takes nothing of another process away.
func TestAPutThatFails(t *testing.T) {
	for name, others := range map[string]bool{"own record": false, "record of another process": true} {
		t.Run(name, func(t *testing.T) {
			store := &failing{Store: NewMemoryStore(), put: errReset}
			client, upstream, _ := newTestClient(t, Options{}, says(200))
			record := recordOf(t, client, post(t, "body"))
			if others {
				record.KeptAt = record.KeptAt.Add(-time.Second)
			}
			client.options.Store = late{store, func() { _ = store.Store.Put(record) }}
			failureOf(t, client, post(t, "body"), ErrStore)
			wantEqual(t, "left", len(pendingKeys(t, client)), map[bool]int{true: 1, false: 0}[others])
			wantEqual(t, "requests", len(upstream.seen), 0)
		})
	}
}

func TestARecordThatIsGoneAgain(t *testing.T) {
	client, upstream, _ := newTestClient(t, Options{Store: &failing{Store: NewMemoryStore(), put: ErrRecordExists}}, says(200))
	failureOf(t, client, post(t, "body"), ErrStore)
	wantEqual(t, "requests", len(upstream.seen), 0)
}

// stored is a file with this record and its right checksum.
func stored(record string) []byte {
	return []byte(`{"checksum":"` + checksum([]byte(record)) + `","record":` + record + `}`)
}

// withOwner is the record of a file with another owner, or with none.
func withOwner(content []byte, owner string) string {
	record, _ := decodeRecord(content)
	inner := strings.Builder{}
	record.Owner = owner
	_ = json.NewEncoder(&inner).Encode(record)
	if owner == "" {
		return strings.Replace(strings.TrimSpace(inner.String()), `"owner":"",`, "", 1)
	}
	return strings.TrimSpace(inner.String())
}

func TestDamagedRecords(t *testing.T) {
	for name, damage := range map[string]func(content []byte) []byte{
		"empty":      func([]byte) []byte { return nil },
		"cut off":    func(content []byte) []byte { return content[:len(content)/2] },
		"other body": func(content []byte) []byte { return []byte(strings.Replace(string(content), "AP88Cg", "AP88Cw", 1)) },
		"other member": func(content []byte) []byte {
			return []byte(strings.Replace(string(content), `{"checksum"`, `{"x":1,"checksum"`, 1))
		},
		"not JSON":    func([]byte) []byte { return []byte("hello") },
		"no request":  func([]byte) []byte { return stored(`{"owner":"acme/shop/ann","key":"b"}`) },
		"no owner":    func(content []byte) []byte { return stored(withOwner(content, "")) },
		"blank owner": func(content []byte) []byte { return stored(withOwner(content, " ")) },
		"other owner": func(content []byte) []byte { return stored(withOwner(content, bob)) },
		"another key": func([]byte) []byte {
			content, _ := encodeRecord(sample("other"))
			return content
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := newFileStore(t)
			_ = store.Put(sample("b"))
			// The names of the files are hashes: "b" comes before "a".
			_ = store.Put(sample("a"))
			content, err := os.ReadFile(store.path(recordID{ann, "b"}))
			if err != nil {
				t.Fatal(err)
			}
			damaged := damage(content)
			if string(damaged) == string(content) {
				t.Fatal("nothing was damaged")
			}
			if err := os.WriteFile(store.path(recordID{ann, "b"}), damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			records, failures := all(store)
			wantEqual(t, "other records", len(records), 1)
			var failure *DamagedRecordError
			if len(failures) != 1 || !errors.As(failures[0], &failure) || failure.Path != store.path(recordID{ann, "b"}) {
				t.Fatal(failures)
			}
			if _, found, err := store.Get(ann, "b"); found || !errors.As(err, &failure) {
				t.Error(found, err)
			}

			// The client sends the others, tells of this one, and never sends with its key.
			client, upstream, clock := newTestClient(t, Options{Store: store}, says(200))
			clock.at = sample("b").KeptAt
			records = map[string]Record{}
			for result := range client.ResumePending(t.Context()) {
				if result.Err != nil {
					asFailure(t, result.Response, result.Err, ErrStore)
				} else {
					records[result.Record.Key] = result.Record
				}
			}
			wantEqual(t, "resumed", len(records), 1)
			request := post(t, "body")
			request.Header.Set(keyHeader, "b")
			failureOf(t, client, request, ErrStore)
			wantEqual(t, "requests", len(upstream.seen), 1)
			if _, err := client.Pending(); !errors.As(err, &failure) {
				t.Error(err)
			}
			left, err := os.ReadFile(store.path(recordID{ann, "b"}))
			wantEqual(t, "the file", fmt.Sprint(string(left), err), fmt.Sprint(string(damaged), nil))

			// The caller can remove it by its key.
			wantEqual(t, "forget", client.Forget("b"), nil)
			if _, err := os.Stat(store.path(recordID{ann, "b"})); !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
		})
	}
}

func TestFilesAreForTheirOwnerOnly(t *testing.T) {
	store := newFileStore(t)
	_ = store.Put(sample("a"))
	folder, _ := os.Stat(store.folder)
	file, _ := os.Stat(store.path(recordID{ann, "a"}))
	wantEqual(t, "modes", fmt.Sprint(folder.Mode(), file.Mode()), "drwx------ -rw-------")
}

func TestTemporaryFiles(t *testing.T) {
	store := newFileStore(t)
	_ = store.Put(sample("a"))
	fresh, old := filepath.Join(store.folder, "1.tmp"), filepath.Join(store.folder, "2.tmp")
	for _, path := range []string{fresh, old} {
		_ = os.WriteFile(path, []byte("{"), 0o600)
	}
	before := time.Now().Add(-2 * temporaryFileLifetime)
	_ = os.Chtimes(old, before, before)
	_, failures := all(store)
	wantEqual(t, "errors", len(failures), 0)
	if _, err := NewFileStore(store.folder); err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(filepath.Join(store.folder, "*"))
	wantEqual(t, "files", left, []string{fresh, store.path(recordID{ann, "a"})})
}

func TestFileStoreThatCannotWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	_ = os.WriteFile(file, nil, 0o600)
	if _, err := NewFileStore(file); err == nil {
		t.Error("a file is no folder")
	}
	if _, err := NewFileStore(""); err == nil {
		t.Error("an empty path is no folder")
	}
	store := newFileStore(t)
	// A folder in the place of the record's file makes the link fail.
	_ = os.MkdirAll(filepath.Join(store.path(recordID{ann, "a"}), "x"), 0o700)
	if err := store.Put(sample("a")); err == nil {
		t.Error("no error")
	}
	left, _ := filepath.Glob(filepath.Join(store.folder, "*"+temporarySuffix))
	wantEqual(t, "temporary files", len(left), 0)
	_ = os.RemoveAll(store.folder)
	if err := store.Put(sample("b")); err == nil {
		t.Error("no error without the folder")
	}
	if _, failures := all(store); len(failures) != 1 {
		t.Error(failures)
	}
}
