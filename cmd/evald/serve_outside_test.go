package main

import (
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/game/gametest"
)

// A load reveals nothing about this machine's files: not in its message, its status, the index or the log.
func TestLoadRevealsNothing(t *testing.T) {
	ownStore(t)
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	putFile(t, there, "x")
	names := []string{
		filepath.Join(dir, "missing"), // the others must be answered the same
		there, there + "/x", dir, "/etc/shadow", "/etc/passwd", "/dev/zero", "serve.go", "../../models/default.safetensors", "missing", "missing@1",
	}
	address, log, _ := startServe(t, "--backend", "uniform", "--repository")
	api := kserve.NewGRPCInferenceServiceClient(dialed(t, address["grpc"]))
	said := map[string]bool{}
	for _, name := range names {
		code, text := posted(t, "http://"+address["http"]+"/v2/repository/models/"+url.PathEscape(name)+"/load", "")
		_, err := api.RepositoryModelLoad(t.Context(), &kserve.RepositoryModelLoadRequest{ModelName: name})
		if code != http.StatusBadRequest {
			t.Errorf("%s: REST says %d %s", name, code, text)
		}
		said[strings.ReplaceAll(text, name, "NAME")] = true
		said["gRPC: "+strings.ReplaceAll(status.Convert(err).Message(), name, "NAME")] = true
	}
	if len(said) != 2 {
		t.Errorf("%d different answers, want one over REST and one over gRPC: %v", len(said), said)
	}
	if _, index := posted(t, "http://"+address["http"]+"/v2/repository/index", ""); strings.Contains(index, "there") || strings.Contains(index, "missing") {
		t.Errorf("the index has names of clients: %s", index)
	}
	if strings.Contains(log.String(), "no such file") || strings.Contains(log.String(), "not a directory") {
		t.Errorf("the log shows that files were looked for:\n%s", log)
	}
}

// Every port of the service, and the agent behind a URL, refuses other sites' pages. The service's own page works.
func TestServeOtherSites(t *testing.T) {
	address, _, _ := startServe(t, "--backend", "uniform", "--allow-origin", "https://notebook.example.org", "--host", "evald.example.org")
	body := `{"inputs":[{"name":"moves","datatype":"BYTES","shape":[1],"data":["44"]}]}`
	for _, x := range []struct {
		name, method, port, path, host, headers string
		want                                    int
	}{
		{"program", "POST", "http", "/v2/models/uniform/infer", "any.example.org", "Content-Type: application/x-www-form-urlencoded", 200},
		{"own page by an allowed name", "GET", "http", "/ui/config", "evald.example.org", "Accept-Language: en", 200},
		{"another page", "POST", "http", "/v2/models/uniform/infer", "", "Sec-Fetch-Site: cross-site\nOrigin: https://evil.example", 403},
		{"allowed page", "POST", "http", "/v2/models/uniform/infer", "", "Sec-Fetch-Site: cross-site\nOrigin: https://notebook.example.org", 200},
		{"another name, metrics", "GET", "metrics", "/metrics", "evil.example", "Accept-Language: en", 403},
		{"Prometheus", "GET", "metrics", "/metrics", "pod.example.org", "User-Agent: Prometheus/3", 200},
	} {
		r := gametest.Must(http.NewRequestWithContext(t.Context(), x.method, "http://"+address[x.port]+x.path, strings.NewReader(body)))(t)
		r.Host = x.host
		for line := range strings.Lines(x.headers) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			r.Header.Set(name, value)
		}
		reply := gametest.Must(http.DefaultClient.Do(r))(t)
		text, err := io.ReadAll(reply.Body)
		reply.Body.Close()
		if err != nil || reply.StatusCode != x.want {
			t.Errorf("%s: %d %s %v, want %d", x.name, reply.StatusCode, text, err, x.want)
		}
	}
	refuses(t, exitUsage, "--allow-origin", "", "serve", "--backend", "uniform", "--allow-origin", "example.org")
	refuses(t, exitUsage, "--host", "", "serve", "--backend", "uniform", "--host", "example.org:80")
}

// dialed returns a connection to a gRPC port.
func dialed(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn := gametest.Must(grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { conn.Close() })
	return conn
}
