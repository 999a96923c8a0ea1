package bucket

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/record/bucket/buckettest"
)

func open(t *testing.T) *Files {
	f := New(t.Context())
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func random(size int) []byte {
	r, b := rand.New(rand.NewPCG(1, uint64(size))), make([]byte, size)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// content reads a whole file by ReadAt, in pieces of random sizes.
func content(f durable.FS, path string) (all []byte, err error) {
	info, err := f.Stat(path)
	if err != nil {
		return nil, err
	}
	h, err := f.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	all = make([]byte, info.Size())
	for at := 0; at < len(all); {
		n, err := h.ReadAt(all[at:min(len(all), at+1+rand.IntN(1<<16))], int64(at))
		if err != nil {
			return nil, err
		}
		at += n
	}
	return all, nil
}

// Objects read as the files they were put from, of all sizes, in a list that is that of the folder.
func testFolder(t *testing.T) {
	dir, f := t.TempDir(), open(t)
	var want []string
	for i, size := range []int{0, 1, 1 << 10, 3<<20 + 5} {
		name := "run/" + strconv.Itoa(i) + " ä+%.parquet"
		path := filepath.Join(dir, strconv.Itoa(i))
		if err := os.WriteFile(path, random(size), 0o600); err != nil {
			t.Fatal(err)
		}
		want = append(want, "s3://games/"+name)
		for _, isNew := range []bool{true, false} {
			if created, err := f.Put(path, want[i]); err != nil || created != isNew {
				t.Errorf("%s: created %v, %v", name, created, err)
			}
		}
		if err := os.WriteFile(path+"b", random(size + 1)[:max(size, 1)], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Put(path+"b", want[i]); err == nil || !strings.Contains(err.Error(), "exists with another content") || !strings.Contains(err.Error(), want[i]) {
			t.Errorf("%s: another content: %v", name, err)
		}
	}
	if _, err := f.Put(filepath.Join(dir, "0"), "s3://games/runs/x.parquet"); err != nil { // not in the folder run
		t.Error(err)
	}
	for _, folder := range []string{"s3://games/run", "s3://games/run/"} {
		if got, err := f.Expand([]string{"a", folder, want[2]}); err != nil || !slices.Equal(got, slices.Concat([]string{"a"}, want, want[2:3])) {
			t.Errorf("%s: %q, %v", folder, got, err)
		}
	}
	for i, path := range want {
		for range 2 {
			got, err := content(f, path)
			file, missing := content(f, filepath.Join(dir, strconv.Itoa(i)))
			if err != nil || missing != nil || !bytes.Equal(got, file) {
				t.Errorf("%s: %d bytes, %v, %v; want %d", path, len(got), err, missing, len(file))
			}
		}
	}
	if _, err := f.Expand([]string{"s3://games/none"}); err == nil || !strings.Contains(err.Error(), "s3://games/none: there are no files") {
		t.Error(err)
	}
	if _, err := f.Stat("s3://games/run/none.parquet"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := f.Expand([]string{"s3://missing/run"}); err == nil || !strings.Contains(err.Error(), "s3://missing/run: there is no such bucket") {
		t.Error(err)
	}
}

func TestFolder(t *testing.T) {
	buckettest.Start(t)
	testFolder(t)
}

func TestFolderMoto(t *testing.T) {
	buckettest.StartMoto(t)
	f := open(t)
	server, err := f.client()
	if err != nil {
		t.Fatal(err)
	}
	if err := makeBucket(t.Context(), server); err != nil {
		t.Fatal(err)
	}
	testFolder(t)
}

// A read survives what passes, and fails with the way out on what does not. A fault is called for each request, numbered from 0.
func TestReadFaults(t *testing.T) {
	const path = "s3://games/run/a.parquet"
	want := random(1 << 20)
	cut := func(w http.ResponseWriter, r *http.Request, after int) bool { // claims all bytes, and sends a few
		at, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-"+strconv.Itoa(len(want)-1)))
		w.Header().Set("ETag", `"a"`)
		w.Header().Set("Last-Modified", "Sun, 09 Sep 2001 01:46:40 GMT")
		w.Header().Set("Content-Length", strconv.Itoa(len(want)-at))
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(want[at:min(len(want), at+after)])
		w.(http.Flusher).Flush()
		return true
	}
	head := func(w http.ResponseWriter) bool {
		w.Header().Set("ETag", `"a"`)
		w.Header().Set("Last-Modified", "Sun, 09 Sep 2001 01:46:40 GMT")
		w.Header().Set("Content-Length", strconv.Itoa(len(want)))
		return true
	}
	for name, c := range map[string]struct {
		fault func(n int, w http.ResponseWriter, r *http.Request) bool
		err   string // "" if the read succeeds
	}{
		"none": {func(int, http.ResponseWriter, *http.Request) bool { return false }, ""},
		"500s": {func(n int, w http.ResponseWriter, _ *http.Request) bool {
			return n%2 == 0 && buckettest.Refuse(w, 500, "InternalError")
		}, ""},
		"slow": {func(n int, w http.ResponseWriter, _ *http.Request) bool {
			return n < 2 && buckettest.Refuse(w, 503, "SlowDown")
		}, ""},
		"cut": {func(_ int, w http.ResponseWriter, r *http.Request) bool {
			return r.Method == "HEAD" && head(w) || cut(w, r, 100_000)
		}, ""},
		"empty": {func(_ int, w http.ResponseWriter, r *http.Request) bool {
			return r.Method == "HEAD" && head(w) || cut(w, r, 0)
		}, "the body ends after 0 of 1048576 bytes, 5 times"},
		"stalled": {func(n int, w http.ResponseWriter, r *http.Request) bool {
			if r.Method == "HEAD" {
				return head(w)
			}
			if n%2 == 1 {
				cut(w, r, 300_000)
				<-r.Context().Done() // until the client ends the request
				return true
			}
			return cut(w, r, 300_000)
		}, ""},
		"changed": {func(_ int, w http.ResponseWriter, r *http.Request) bool { return r.Method == "HEAD" && head(w) }, "was changed while it was read"},
		"changed, and If-Match unknown": {func(_ int, w http.ResponseWriter, r *http.Request) bool {
			if r.Method == "HEAD" {
				return head(w)
			}
			r.Header.Del("If-Match")
			return false
		}, "was changed while it was read"},
		"403": {func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			return buckettest.Refuse(w, 403, "AccessDenied")
		}, "check AWS_ACCESS_KEY_ID"},
		"wrong key": {func(_ int, w http.ResponseWriter, r *http.Request) bool {
			return r.Method == "GET" && buckettest.Refuse(w, 403, "SignatureDoesNotMatch")
		}, "(SignatureDoesNotMatch)"},
		"always 500": {func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			return buckettest.Refuse(w, 500, "InternalError")
		}, "500"},
	} {
		t.Run(name, func(t *testing.T) {
			s := buckettest.Start(t)
			s.Set("run/a.parquet", want)
			var n atomic.Int64
			s.Fault = func(w http.ResponseWriter, r *http.Request) bool { return c.fault(int(n.Add(1)-1), w, r) }
			f := open(t)
			f.stall = 50 * time.Millisecond
			got, err := content(f, path)
			if c.err == "" && (err != nil || !bytes.Equal(got, want)) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), buckettest.Secret)) {
				t.Errorf("%v; want %s", err, c.err)
			}
		})
	}
}

// Once an object is copied, its later changes change nothing.
func TestSnapshot(t *testing.T) {
	s := buckettest.Start(t)
	s.Set("a.parquet", random(1000))
	f := open(t)
	for range 2 {
		if got, err := content(f, "s3://games/a.parquet"); err != nil || !bytes.Equal(got, random(1000)) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		s.Set("a.parquet", random(2000))
	}
}

// A put whose answer is lost, one that another process overtakes, and one by a server without conditions.
func TestPutFaults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.parquet")
	if err := os.WriteFile(file, random(300_000), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		fault   func(s *buckettest.Server, w http.ResponseWriter, r *http.Request) bool // for each PUT
		created bool
		err     string
	}{
		"lost answer": {func(s *buckettest.Server, w http.ResponseWriter, r *http.Request) bool {
			if s.Object("a.parquet") != nil {
				return false
			}
			b, _ := buckettest.Body(r)
			s.Set("a.parquet", b)
			return buckettest.Refuse(w, 500, "InternalError")
		}, false, ""},
		"overtaken": {func(s *buckettest.Server, _ http.ResponseWriter, _ *http.Request) bool {
			s.Set("a.parquet", random(7))
			return false
		}, false, "exists with another content"},
		"no condition": {func(_ *buckettest.Server, w http.ResponseWriter, r *http.Request) bool {
			return r.Header.Get("If-None-Match") != "" && buckettest.Refuse(w, 501, "NotImplemented")
		}, true, ""},
		"denied": {func(_ *buckettest.Server, w http.ResponseWriter, _ *http.Request) bool {
			return buckettest.Refuse(w, 403, "AccessDenied")
		}, false, "check AWS_ACCESS_KEY_ID"},
	} {
		t.Run(name, func(t *testing.T) {
			s := buckettest.Start(t)
			s.Fault = func(w http.ResponseWriter, r *http.Request) bool { return r.Method == "PUT" && c.fault(s, w, r) }
			created, err := open(t).Put(file, "s3://games/a.parquet")
			if created != c.created || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("created %v, %v; want %v, %s", created, err, c.created, c.err)
			}
			if err == nil && !bytes.Equal(s.Object("a.parquet"), random(300_000)) {
				t.Error("the object is not the file")
			}
		})
	}
}

// The end of the context ends a read in the middle of a body.
func TestInterrupted(t *testing.T) {
	s := buckettest.Start(t)
	s.Set("a.parquet", random(1000))
	ctx, cancel := context.WithCancel(t.Context())
	s.Fault = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == "GET" {
			cancel()
			<-r.Context().Done()
		}
		return false
	}
	f := New(ctx)
	defer f.Close()
	if _, err := content(f, "s3://games/a.parquet"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Paths and environments that name nothing are refused before any request; an endpoint's password is not shown.
func TestNames(t *testing.T) {
	s := buckettest.Start(t)
	s.Fault = func(_ http.ResponseWriter, r *http.Request) bool {
		t.Errorf("%s %s", r.Method, r.URL)
		return false
	}
	for _, path := range []string{"s3://", "s3://games", "s3:///a.parquet", "s3://games/", "s3://games/a/"} {
		if _, err := open(t).Stat(path); err == nil || !strings.Contains(err.Error(), "want s3://BUCKET/KEY") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := open(t).OpenFile("s3://games/a.parquet", os.O_RDWR, 0); !errors.Is(err, errReadOnly) {
		t.Error(err)
	}
	for _, endpoint := range []string{"localhost:9000", "http://user:" + buckettest.Secret + "@host", "http://host/path", "ftp://host", "http://\x7f"} {
		t.Setenv("AWS_ENDPOINT_URL", endpoint)
		_, err := open(t).Stat("s3://games/a.parquet")
		if err == nil || !strings.Contains(err.Error(), "AWS_ENDPOINT_URL is not of the form") || strings.Contains(err.Error(), buckettest.Secret) {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}
