package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evald/evald/engine/game/gametest"
)

// flagsOfFiles are the flags of evald serve that name files, as its types, placeholders and help
// say.
func flagsOfFiles(t *testing.T) (names []string) {
	t.Helper()
	var c cli
	for _, command := range newParser(&c, streams{}, nil).Model.Children {
		if command.Name != "serve" {
			continue
		}
		for _, group := range command.AllFlags(false) {
			for _, f := range group {
				typed := slices.Contains([]string{"path", "existingfile", "existingdir", "filecontent", "namedfilecontent"}, f.Tag.Type)
				named := regexp.MustCompile(`\b(FILE|PATH|DIR|F\.\w+)\b`).MatchString(f.PlaceHolder + " " + f.Help)
				if typed || named && f.Name != "cpu-path" { // which is a path of instructions
					names = append(names, f.Name)
				}
			}
		}
	}
	return names
}

// The service knows of each file that a flag names what becomes of it at a reload, and the manual
// says it.
func TestFileFlags(t *testing.T) {
	names := flagsOfFiles(t)
	if len(names) < 8 {
		t.Fatalf("flags that name files: %v", names)
	}
	_, manual, _ := strings.Cut(string(getFile(t, "kserve/README.md")), "\n## Reloads\n")
	manual, _, _ = strings.Cut(manual, "\n## ")
	for _, name := range names {
		if fileFlags[name] == 0 {
			t.Errorf("--%s names a file: add it to fileFlags, so that a reload reads it or reports that it has changed", name)
		}
		if !strings.Contains(manual, "`--"+name+"`") {
			t.Errorf("the section Reloads of kserve/README.md does not name --%s", name)
		}
	}
	for name := range fileFlags {
		if !slices.Contains(names, name) {
			t.Errorf("fileFlags has --%s, which is no flag that names a file", name)
		}
	}
}

// A file that only a restart reads is reported when it changes.
func TestStartFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	putFile(t, file("config"), "serve: {rows: 4000}\n")
	putFile(t, file("ort"), "x")
	must(t, "", "solve", "--build-book", file("book"), "--rules", "4x4x4", "--plies", "2")
	must(t, "", "match", "random", "negamax", "--games", "2", "--rules", "4x4x4", "-o", file("games.parquet"))
	paths := map[string]string{"config": file("config"), "ort": file("ort"), "book": file("book"), "games": file("games.parquet")}
	args := []string{"--backend", "uniform", "--watch", "5ms"}
	for name, use := range fileFlags {
		if use != readAtStart {
			continue
		}
		if paths[name] == "" {
			t.Fatalf("no file for --%s", name)
		}
		value := paths[name]
		if name == "ort" {
			value = "provider=CUDA,library=" + value
		}
		args = append(args, "--"+name, value)
	}
	_, log, _ := startServe(t, args...)
	for name, path := range paths {
		gametest.OK(t, os.Chtimes(path, time.Time{}, time.Unix(1e9, 0)))
		says := fmt.Sprintf("--%s: %s has changed: restart the service to read it", name, path)
		eventually(t, log, says, func() bool { return strings.Contains(log.String(), says) })
	}
	if n := strings.Count(log.String(), "has changed: restart"); n != len(paths) {
		t.Errorf("%d reports of %d files:\n%s", n, len(paths), log)
	}
}

// eventually waits for a condition of a service with this log.
func eventually(t *testing.T, log *syncBuffer, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s\n%s", what, log)
		}
	}
}

// selfSigned is a certificate that has signed itself, and its key.
func selfSigned(t *testing.T, name string) (certificate, key []byte) {
	t.Helper()
	private := gametest.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der := gametest.Must(x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private))(t)
	pkcs8 := gametest.Must(x509.MarshalPKCS8PrivateKey(private))(t)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

// Certificates and tokens in a volume of Kubernetes, whose files are links through ..data, are
// reloaded when that link is exchanged: all of them, or none if one of them is damaged, and the log
// then names its flag and file.
func TestServeAccessReload(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no symbolic links")
	}
	dir := t.TempDir()
	ca, caKey := selfSigned(t, "client")
	version := func(name, token string) map[string][]byte {
		certificate, key := selfSigned(t, name)
		return map[string][]byte{"tls-cert": certificate, "tls-key": key, "tls-client-ca": ca, "tokens": []byte("inference,metadata " + token + "\n")}
	}
	exchanged := 0
	exchange := func(files map[string][]byte) { // as a kubelet does
		exchanged++
		folder := fmt.Sprintf("..%d", exchanged)
		gametest.OK(t, os.Mkdir(filepath.Join(dir, folder), 0o700))
		for name, text := range files {
			putFile(t, filepath.Join(dir, folder, name), text)
		}
		gametest.OK(t, os.Symlink(folder, filepath.Join(dir, "..data_tmp")))
		gametest.OK(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	exchange(version("first", "old"))
	args := []string{"--backend", "uniform", "--watch", "5ms"}
	for name, use := range fileFlags {
		if use == readTogether {
			gametest.OK(t, os.Symlink("..data/"+name, filepath.Join(dir, name)))
			args = append(args, "--"+name, filepath.Join(dir, name))
		}
	}
	address, log, _ := startServe(t, args...)
	pair := gametest.Must(tls.X509KeyPair(ca, caKey))(t)
	get := func(token string) string {
		web := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}}}
		defer web.CloseIdleConnections()
		r := gametest.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address["http"]+"/v2", nil))(t)
		r.Header.Set("Authorization", "Bearer "+token)
		reply := gametest.Must(web.Do(r))(t)
		reply.Body.Close()
		return fmt.Sprint(reply.TLS.PeerCertificates[0].Subject.CommonName, " ", reply.StatusCode)
	}
	if got := get("old"); got != "first 200" {
		t.Fatalf("at the start: %s", got)
	}
	for name, use := range fileFlags {
		if use != readTogether {
			continue
		}
		for how, text := range map[string]string{"damaged": "damaged\n", "empty": ""} {
			wrong := version("second", "new")
			wrong[name] = []byte(text)
			before := strings.Count(log.String(), "the old ones stay in force")
			exchange(wrong)
			eventually(t, log, how+" "+name, func() bool { return strings.Count(log.String(), "the old ones stay in force") > before })
			lines := strings.Split(strings.TrimSpace(log.String()), "\n")
			if last := lines[len(lines)-1]; !strings.Contains(last, filepath.Join(dir, name)) {
				t.Errorf("%s %s: the log does not name the file: %s", how, name, last)
			}
			if got := get("old"); got != "first 200" {
				t.Errorf("%s %s: %s", how, name, got)
			}
		}
	}
	exchange(version("second", "new"))
	eventually(t, log, "the reload", func() bool { return strings.Contains(log.String(), "certificates and tokens were reloaded") })
	if old, now := get("old"), get("new"); old != "second 401" || now != "second 200" {
		t.Errorf("after a reload: the old token %s, the new one %s", old, now)
	}
}
