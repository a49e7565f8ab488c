package idempotency

import (
	"bytes"
	"errors"
	"iter"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Record is a request as a [Store] keeps it. It has no credentials.
type Record struct {
	// Owner is who made the request (Options.Owner): only a client of this owner sends it.
	Owner string `json:"owner"`
	// Key is its Idempotency-Key. Two owners may have the same key: these are two requests.
	Key    string `json:"key"`
	Method string `json:"method"`
	// URL has no user and no password.
	URL string `json:"url"`
	// Host is the value of the Host header if it is not that of the URL, else "".
	Host string `json:"host,omitempty"`
	// Header has canonical names, and no Idempotency-Key.
	Header http.Header `json:"header"`
	Body   []byte      `json:"body"`
	// KeptAt is when the request was kept for the first time.
	KeptAt time.Time `json:"kept_at"`
}

// ErrRecordExists is what [Store.Put] returns, perhaps wrapped, if the owner has a record under the key.
var ErrRecordExists = errors.New("a record with this key is kept already")

// Store keeps requests until they have an answer, each under its owner and its key. Several goroutines call it at the same time. A store that can hang, for example
// because it uses a network, sets its own time limits.
type Store interface {
	// Put keeps the record under its owner and its key. When it returns nil, the record survives whatever the store promises to survive. If there is
	// a record there, that one stays as it is, also if it is damaged, and the error is ErrRecordExists. After another error the
	// record is not there, or a Delete removes it.
	Put(record Record) error
	// Get returns an owner's record of a key; found is false if there is none. A record that cannot be read is an error.
	Get(owner, key string) (record Record, found bool, err error)
	// Delete removes an owner's record of a key. It is no error if there is none.
	Delete(owner, key string) error
	// All yields the records of all owners in any order. For one that cannot be read it yields an error, and goes on with the others.
	All() iter.Seq2[Record, error]
}

// MemoryStore is a [Store] that a restart empties: nothing can be resumed after a crash. Use NewMemoryStore.
type MemoryStore struct {
	mutex   sync.Mutex
	records map[recordID]Record
}

// recordID is what tells records apart.
type recordID struct{ owner, key string }

func (r Record) id() recordID { return recordID{r.Owner, r.Key} }

// NewMemoryStore returns an empty store.
func NewMemoryStore() *MemoryStore { return &MemoryStore{records: map[recordID]Record{}} }

// Put keeps a copy of the record. Its only error is ErrRecordExists.
func (s *MemoryStore) Put(record Record) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if _, found := s.records[record.id()]; found {
		return ErrRecordExists
	}
	s.records[record.id()] = record.clone()
	return nil
}

// Get returns a copy of the record. It never fails.
func (s *MemoryStore) Get(owner, key string) (Record, bool, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	record, found := s.records[recordID{owner, key}]
	return record.clone(), found, nil
}

// Delete removes the record. It never fails.
func (s *MemoryStore) Delete(owner, key string) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.records, recordID{owner, key})
	return nil
}

// All yields copies of the records that are there when the loop begins.
func (s *MemoryStore) All() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		s.mutex.Lock()
		records := slices.Collect(maps.Values(s.records))
		s.mutex.Unlock()
		for _, record := range records {
			if !yield(record.clone(), nil) {
				return
			}
		}
	}
}

func (r Record) clone() Record {
	r.Header = r.Header.Clone()
	r.Body = bytes.Clone(r.Body)
	return r
}
