package idempotency

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

const (
	recordSuffix    = ".json"
	temporarySuffix = ".tmp"
	// Each file operation that waits for the disk holds a thread, and Go ends a process with 10,000 of them.
	fileOperationsAtOnce = 16
	// A temporary file that is older was left by a crash, and its request was never sent.
	temporaryFileLifetime = time.Hour
)

// FileStore is a [Store] in a folder, with one file for each record. A record survives a crash of the process and of the machine.
//
// Several goroutines and several processes can use the same folder: each change is one atomic step of the file system. What one
// process has under way is pending for another one.
type FileStore struct {
	folder string
	slots  chan struct{}
}

// DamagedRecordError is the error for a file that is not a whole record. The store neither uses nor deletes the file.
type DamagedRecordError struct {
	// Path is the file's path.
	Path string
	// Cause is what is wrong with the file.
	Cause error
}

// Error tells the path, the cause and what to do.
func (e *DamagedRecordError) Error() string {
	return fmt.Sprintf("the kept request %s is damaged: %v; find out whether it ran, then delete the file", e.Path, e.Cause)
}

// Unwrap returns the cause.
func (e *DamagedRecordError) Unwrap() error { return e.Cause }

// storedFile is the content of a file. The checksum is the SHA-256 of the record's bytes, as hexadecimal digits: a changed body
// must not be sent with the key of another one.
type storedFile struct {
	Checksum string          `json:"checksum"`
	Record   json.RawMessage `json:"record"`
}

// NewFileStore opens the store in the folder, and makes the folder, for its owner only, if it is not there.
func NewFileStore(folder string) (*FileStore, error) {
	if folder == "" {
		return nil, errors.New("idempotency: the path of the store's folder is empty")
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("idempotency: the store's folder: %w", err)
	}
	store := &FileStore{folder: folder, slots: make(chan struct{}, fileOperationsAtOnce)}
	if err := store.removeTemporaryFiles(); err != nil {
		return nil, fmt.Errorf("idempotency: the store's folder: %w", err)
	}
	return store, nil
}

// Put writes the record into a temporary file, syncs it, links it to its name, and syncs the folder. A link is one step, as a rename is, but
// never replaces the record of another process. The file system has to have hard links.
func (s *FileStore) Put(record Record) (err error) {
	defer s.slot()()
	content, err := encodeRecord(record)
	if err != nil {
		return err
	}
	// os.CreateTemp makes a file that only its owner can read.
	file, err := os.CreateTemp(s.folder, "*"+temporarySuffix)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = link(file.Name(), s.path(record.id()))
	}
	removeErr := os.Remove(file.Name())
	if err != nil {
		return errors.Join(err, removeErr)
	}
	// A temporary file that stays does no harm: NewFileStore removes it later.
	return s.syncFolder()
}

func link(file, name string) error {
	err := os.Link(file, name)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %s", ErrRecordExists, name)
	}
	if err != nil {
		return fmt.Errorf("the store's folder has to be on a file system with hard links: %w", err)
	}
	return nil
}

// Get reads the record. Its error is a *DamagedRecordError, or one of the file system.
func (s *FileStore) Get(owner, key string) (Record, bool, error) {
	record, err := s.read(s.path(recordID{owner, key}))
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, false, nil
	}
	return record, err == nil, err
}

// Delete removes the record's file, also if it is damaged, and syncs the folder.
func (s *FileStore) Delete(owner, key string) error {
	defer s.slot()()
	if err := os.Remove(s.path(recordID{owner, key})); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return s.syncFolder()
}

// All yields the records. Its errors are *DamagedRecordError for one file, or one of the file system.
func (s *FileStore) All() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		entries, err := os.ReadDir(s.folder)
		if err != nil {
			yield(Record{}, err)
			return
		}
		for _, entry := range entries {
			if filepath.Ext(entry.Name()) != recordSuffix {
				continue
			}
			record, err := s.read(filepath.Join(s.folder, entry.Name()))
			if errors.Is(err, fs.ErrNotExist) {
				continue // It was removed meanwhile.
			}
			if !yield(record, err) {
				return
			}
		}
	}
}

// path is the record's file. A key can have characters that no file name has, and file names may ignore case: so the name is a hash.
func (s *FileStore) path(id recordID) string {
	hash := sha256.Sum256(fmt.Appendf(nil, "%d:%s%s", len(id.owner), id.owner, id.key))
	return filepath.Join(s.folder, hex.EncodeToString(hash[:])+recordSuffix)
}

func (s *FileStore) read(path string) (Record, error) {
	defer s.slot()()
	content, err := os.ReadFile(path)
	if err != nil {
		return Record{}, err
	}
	record, err := decodeRecord(content)
	if err == nil && s.path(record.id()) != path {
		err = fmt.Errorf("it is the record of another owner or key, %s and %s", record.Owner, record.Key)
	}
	if err != nil {
		return Record{}, &DamagedRecordError{Path: path, Cause: err}
	}
	return record, nil
}

// slot waits for a free slot, and returns the function that frees it.
func (s *FileStore) slot() func() {
	s.slots <- struct{}{}
	return func() { <-s.slots }
}

func (s *FileStore) syncFolder() error {
	if runtime.GOOS == "windows" {
		return nil // Windows cannot sync a folder.
	}
	folder, err := os.Open(s.folder)
	if err != nil {
		return err
	}
	err = folder.Sync()
	return errors.Join(err, folder.Close())
}

func (s *FileStore) removeTemporaryFiles() error {
	entries, err := os.ReadDir(s.folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != temporarySuffix {
			continue
		}
		// Another process may use the folder, and rename or remove the file meanwhile.
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > temporaryFileLifetime {
			_ = os.Remove(filepath.Join(s.folder, entry.Name()))
		}
	}
	return nil
}

func encodeRecord(record Record) ([]byte, error) {
	inner, err := json.Marshal(record)
	if err != nil {
		return nil, err
	}
	return json.Marshal(storedFile{Checksum: checksum(inner), Record: inner})
}

func decodeRecord(content []byte) (Record, error) {
	var file storedFile
	if err := strictly(content, &file); err != nil {
		return Record{}, err
	}
	if checksum(file.Record) != file.Checksum {
		return Record{}, errors.New("the checksum is wrong")
	}
	var record Record
	// A member that this version does not know may change what the request means.
	if err := strictly(file.Record, &record); err != nil {
		return Record{}, err
	}
	if strings.TrimSpace(record.Owner) == "" || record.Key == "" || record.Method == "" || record.URL == "" || record.KeptAt.IsZero() {
		return Record{}, errors.New("the owner, the key, the method, the URL or the time is missing")
	}
	return record, nil
}

func strictly(content []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("it is not the JSON of a record: %w", err)
	}
	return nil
}

func checksum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
