// Package buckettest has servers of S3 for tests: a small one in this process whose faults the test chooses, and moto.
package buckettest

import (
	"bufio"
	"bytes"
	"crypto/md5"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Secret is the secret key of the environment that the servers set.
const Secret = "a-secret-key-for-tests"

// Server is a server of S3 with one bucket, "games". It checks no signatures.
type Server struct {
	// Fault answers a request in place of the server, and reports whether it did. It may be nil. Set it between requests.
	Fault func(w http.ResponseWriter, r *http.Request) bool

	mu      sync.Mutex
	objects map[string][]byte
	puts    int
}

// Start starts a server, and sets the environment that names it.
func Start(t *testing.T) *Server {
	s := &Server{objects: map[string][]byte{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	setenv(t, server.URL)
	return s
}

// StartMoto starts moto_server, and sets the environment that names it. The test is skipped if there is none.
func StartMoto(t *testing.T) {
	program, err := exec.LookPath("moto_server")
	if err != nil {
		t.Skip("there is no moto_server: make bin/s3, and add bin/s3/bin to PATH; make soak does")
	}
	server := exec.Command(program, "-H", "127.0.0.1", "-p", "0")
	log, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if url := regexp.MustCompile(`http://[\d.:]+`).FindString(lines.Text()); url != "" {
			setenv(t, url)
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return
		}
	}
	t.Fatal("moto_server has ended before it listened")
}

func setenv(t *testing.T, url string) {
	for _, name := range []string{"AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN", "AWS_PROFILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_ENDPOINT_URL", url)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", Secret)
}

// Object returns the content of an object; nil if there is none.
func (s *Server) Object(key string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.objects[key])
}

// Set makes or replaces an object.
func (s *Server) Set(key string, content []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[key] = content
}

// Keys returns all keys in order.
func (s *Server) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.objects))
}

// Puts returns the number of objects that requests have put.
func (s *Server) Puts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.puts
}

// Refuse answers a request by an error of S3.
func Refuse(w http.ResponseWriter, status int, code string) bool {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>the test's %s</Message></Error>", code, code)
	return true
}

// ServeHTTP answers lists, HEAD, GET and PUT.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.Fault != nil && s.Fault(w, r) {
		return
	}
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	content, ok := s.objects[key]
	tag := etag(content)
	switch {
	case bucket != "games":
		Refuse(w, http.StatusNotFound, "NoSuchBucket")
	case key == "":
		s.list(w, r.FormValue("prefix"))
	case r.Method == http.MethodPut && ok && r.Header.Get("If-None-Match") == "*":
		_, _ = io.Copy(io.Discard, r.Body)
		Refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
	case r.Method == http.MethodPut:
		content, err := Body(r)
		if err != nil { // the client has ended within the body: a server keeps nothing of it
			return
		}
		s.objects[key] = content
		s.puts++
		w.Header().Set("ETag", etag(content))
	case !ok:
		Refuse(w, http.StatusNotFound, "NoSuchKey")
	default:
		w.Header().Set("ETag", tag)
		http.ServeContent(w, r, "", time.Unix(1e9, 0), bytes.NewReader(content)) // knows Range and If-Match
	}
}

func etag(content []byte) string { return fmt.Sprintf(`"%x"`, md5.Sum(content)) }

func (s *Server) list(w http.ResponseWriter, prefix string) {
	type object struct {
		Key, ETag, LastModified string
		Size                    int
	}
	var list struct {
		XMLName  xml.Name `xml:"ListBucketResult"`
		Contents []object
	}
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if strings.HasPrefix(key, prefix) {
			list.Contents = append(list.Contents, object{key, etag(s.objects[key]), "2001-09-09T01:46:40Z", len(s.objects[key])})
		}
	}
	_ = xml.NewEncoder(w).Encode(list)
}

// Body returns the content of a PUT, which over HTTP is in signed chunks.
func Body(r *http.Request) ([]byte, error) {
	if !strings.Contains(r.Header.Get("Content-Encoding")+r.Header.Get("X-Amz-Content-Sha256"), "chunked") &&
		!strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING") {
		return io.ReadAll(r.Body)
	}
	var content []byte
	for in := bufio.NewReader(r.Body); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		size, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		n, err := strconv.ParseInt(size, 16, 32)
		if err != nil || n == 0 {
			_, _ = io.Copy(io.Discard, in)
			return content, err
		}
		chunk := make([]byte, n+2)
		if _, err := io.ReadFull(in, chunk); err != nil {
			return nil, err
		}
		content = append(content, chunk[:n]...)
	}
}
