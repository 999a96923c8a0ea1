//go:build !first

package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/evald/evald/cmd/evald/service"
	"github.com/evald/evald/engine/durable"
)

// fileFlags says of each flag of evald serve that names files what becomes of a file that changes
// while the service runs.
var fileFlags = map[string]fileUse{
	"tokens": readTogether, "tls-cert": readTogether, "tls-key": readTogether, "tls-client-ca": readTogether,
	"models": readWithModels, "model": readWithModels,
	"runs":   readOnRequest,
	"config": readAtStart, "book": readAtStart, "games": readAtStart, "ort": readAtStart,
}

// fileUse is the time at which the service reads a file.
type fileUse int

const (
	readTogether   fileUse = iota + 1 // at the start and at a reload, together with the other files of this kind
	readWithModels                    // at the start and at a reload
	readOnRequest                     // whenever a client asks for it
	readAtStart                       // at the start alone; a reload only reports that it has changed
)

// accessReader returns a function that reads the files that decide who may call, for
// service.Config.ReadAccess.
func (c *serveCmd) accessReader(log *slog.Logger) func() (service.Access, any, error) {
	var warned any
	return func() (service.Access, any, error) {
		texts, err := c.accessTexts()
		state := sha256.New()
		for _, text := range texts {
			fmt.Fprintln(state, len(text))
			state.Write(text)
		}
		fmt.Fprint(state, err)
		files := [sha256.Size]byte(state.Sum(nil))
		var a service.Access
		if err == nil {
			a, err = c.access(texts)
		}
		if err == nil && warned != files {
			warned = files
			if info, err := os.Stat(c.Tokens); err == nil && info.Mode().Perm()&0o004 != 0 && runtime.GOOS != "windows" {
				log.Warn(fmt.Sprintf("--tokens %s: EVERYBODY on this machine can read the tokens: chmod 600 %[1]s", c.Tokens))
			}
		}
		return a, files, err
	}
}

// accessTexts is the texts of the files, in the order of the fields of serveCmd; nil for a flag
// that is not given. Two readings in a row are equal, so that all texts are of one version if the
// files are exchanged by one rename, as Kubernetes exchanges those of a secret.
func (c *serveCmd) accessTexts() (texts [4][]byte, err error) {
	for range 10 {
		before := texts
		for i, f := range []struct{ flag, path string }{{"tls-cert", c.TLSCert}, {"tls-key", c.TLSKey}, {"tls-client-ca", c.TLSClientCA}, {"tokens", c.Tokens}} {
			if f.path == "" {
				continue
			}
			if texts[i], err = durable.ReadSettings(f.path); err != nil {
				return texts, fmt.Errorf("--%s: %w", f.flag, err)
			}
			if len(texts[i]) == 0 { // or a file that is being written would close the service
				return texts, fmt.Errorf("--%s: %s is empty", f.flag, f.path)
			}
		}
		same := true
		for i := range texts {
			same = same && bytes.Equal(texts[i], before[i])
		}
		if same {
			return texts, nil
		}
	}
	return texts, errors.New("--tls-cert, --tls-key, --tls-client-ca, --tokens: the files change while they are read")
}

// access decodes the texts. The error names the flag and the file.
func (c *serveCmd) access(texts [4][]byte) (a service.Access, err error) {
	if c.TLSCert != "" {
		a, err = service.ReadTLS(texts[0], texts[1], texts[2])
		switch {
		case errors.Is(err, service.ErrAuthorities):
			return a, fmt.Errorf("--tls-client-ca: %s %w", c.TLSClientCA, err)
		case err != nil:
			return a, fmt.Errorf("--tls-cert: certificate %s with key %s: %w", c.TLSCert, c.TLSKey, err)
		}
	}
	if c.Tokens != "" {
		if a.Tokens, err = service.ReadTokens(bytes.NewReader(texts[3])); err != nil {
			return a, fmt.Errorf("--tokens %s: %w", c.Tokens, err)
		}
	}
	return a, nil
}

// startFiles are the files that only a restart reads again.
type startFiles []*startedWith

// startedWith is a file that the service has read at its start.
type startedWith struct {
	flag, path string
	state      any
}

// AfterApply notes the files of the flags that kind readAtStart has in fileFlags.
func (c *serveCmd) AfterApply(k *kong.Context) error {
	for _, flag := range k.Flags() {
		if fileFlags[flag.Name] != readAtStart {
			continue
		}
		var paths []string
		switch value := k.FlagValue(flag).(type) {
		case []string:
			paths = value
		case ortFlag: // KEY=VALUE,...
			for _, part := range strings.Split(string(value), ",") {
				if key, path, _ := strings.Cut(part, "="); key == "library" || key == "plugin" {
					paths = append(paths, path)
				}
			}
		default:
			paths = []string{fmt.Sprint(value)}
		}
		for _, path := range paths {
			if _, err := os.Stat(path); err == nil {
				c.startFiles = append(c.startFiles, &startedWith{flag.Name, path, fileState(path)})
			}
		}
	}
	return nil
}

// report logs each file that has changed since the last report.
func (all startFiles) report(log *slog.Logger) {
	for _, f := range all {
		if now := fileState(f.path); now != f.state {
			f.state = now
			log.Warn(fmt.Sprintf("--%s: %s has changed: restart the service to read it", f.flag, f.path))
		}
	}
}

// fileState is a comparable value that differs once a file has changed.
func fileState(path string) any {
	info, err := os.Stat(path)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(info.Size(), info.ModTime().UnixNano())
}
