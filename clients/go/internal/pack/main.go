// Command pack writes the module as a zip file, in the form of Go's module zips: each name begins with module@version/. The same files
// give the same bytes. (golang.org/x/mod/zip refuses the module's path, because its first element is no domain.)
//
// usage: pack MODULE_FOLDER OUTPUT_FOLDER
//
// It prints the path of the zip file.
package main

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	idempotency "edge-idempotency/clients/go"
)

var moduleLine = regexp.MustCompile(`(?m)^module (\S+)$`)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: pack MODULE_FOLDER OUTPUT_FOLDER")
		os.Exit(2)
	}
	path, err := pack(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}

func pack(folder, output string) (path string, err error) {
	goMod, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		return "", err
	}
	module := moduleLine.FindSubmatch(goMod)
	if module == nil {
		return "", errors.New("go.mod has no line with the module's path")
	}
	path = filepath.Join(output, "edge-idempotency-clients-go-v"+idempotency.Version+".zip")
	// A file that is only half written must not have the name of the package.
	file, err := os.CreateTemp(output, "*.tmp")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	err = write(file, folder, fmt.Sprintf("%s@v%s/", module[1], idempotency.Version))
	if err = errors.Join(err, file.Close()); err != nil {
		return "", err
	}
	if err = os.Chmod(file.Name(), 0o644); err != nil {
		return "", err
	}
	return path, os.Rename(file.Name(), path)
}

// write adds the files of the folder, and leaves out other modules below it, as Go does. The names come in their lexical order.
func write(to io.Writer, folder, prefix string) error {
	writer := zip.NewWriter(to)
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != folder {
				return filepath.SkipDir
			}
			return nil
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		// Create sets no time, so the bytes depend on the files only.
		part, err := writer.Create(prefix + filepath.ToSlash(name))
		if err != nil {
			return err
		}
		_, err = part.Write(content)
		return err
	})
	return errors.Join(err, writer.Close())
}
