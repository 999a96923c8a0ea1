package service

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"time"

	"google.golang.org/grpc/codes"
)

// Access decides who may call. It is exchanged as a whole, so that no call meets the tokens of one
// version and the certificate of another.
type Access struct {
	TLS    *tls.Config          // of both ports; nil: no encryption
	Tokens *Tokens              // the calls that each token opens; nil: every client may call everything
	Ends   map[string]time.Time // when the first certificate of each file ends, for the metrics and the log
}

// Names of files in Access.Ends.
const (
	serverFile  = "tls-cert"
	clientsFile = "tls-client-ca"
)

// ReadTLS returns the access of a certificate and its key (PEM), without tokens. If clients is not
// nil, clients must present a certificate signed by an authority in it (PEM). If only the clients'
// authorities are wrong, the error is ErrAuthorities.
func ReadTLS(certificate, key, clients []byte) (a Access, err error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return a, err
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	a = Access{TLS: c, Ends: map[string]time.Time{serverFile: firstEnd(certificate)}}
	if clients == nil {
		return a, nil
	}
	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !c.ClientCAs.AppendCertsFromPEM(clients) {
		return Access{}, ErrAuthorities
	}
	a.Ends[clientsFile] = firstEnd(clients)
	return a, nil
}

// firstEnd returns the time at which the first certificate of a text (PEM) ends, which may be one
// between the server's and its authority. It skips what crypto/tls skips: other blocks, and
// certificates that it cannot read.
func firstEnd(text []byte) (end time.Time) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" && (end.IsZero() || c.NotAfter.Before(end)) {
			end = c.NotAfter
		}
	}
	return end
}

// nearEnd is the time before the end of a certificate in which the log and an alert warn. Programs
// that renew certificates do so weeks before.
const nearEnd = 7 * 24 * time.Hour

// warnOfEnds logs each file whose certificate ends soon, or has ended.
func (s *Server) warnOfEnds() {
	for file, end := range s.access.Load().Ends {
		if left := time.Until(end); left < nearEnd {
			s.config.Log.Warn("a certificate ends soon, or has ended: replace the file and reload", "file", file, "end", end.UTC(), "left", left.Round(time.Second))
		}
	}
}

// ErrAuthorities is the error of ReadTLS for authorities without a certificate.
var ErrAuthorities = errors.New("has no certificate")

// tlsConfig returns the TLS configuration of a port, or nil without encryption. Each new connection
// uses the certificate and the authorities in force when it begins.
func (s *Server) tlsConfig(protocols ...string) *tls.Config {
	if s.access.Load().TLS == nil {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: protocols,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			now := s.access.Load()
			hello.Conn.(*connection).trusted.Store(now)
			c := now.TLS.Clone()
			c.NextProtos = protocols
			return c, nil
		},
	}
}

// allow sets the request's token, or returns an error if the access in force does not open the call
// to its client.
func (s *Server) allow(r *request, token string) (err error) {
	now := s.access.Load()
	r.access, r.secret = now, token
	if err := now.trusts(r); err != nil {
		return err
	}
	r.token, err = now.Tokens.allow(r.group, token)
	return err
}

// trusts returns an error if the client's certificate was accepted when its connection began, but
// is signed by none of the authorities of today.
func (a *Access) trusts(r *request) error {
	if r.tls == nil || a.TLS == nil || a.TLS.ClientCAs == nil || r.conn.trusted.Load() == a {
		return nil
	}
	chain := r.tls.PeerCertificates
	if len(chain) == 0 {
		return refuse(codes.Unauthenticated, "the client has no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	usages := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if _, err := chain[0].Verify(x509.VerifyOptions{Roots: a.TLS.ClientCAs, Intermediates: between, KeyUsages: usages}); err != nil {
		return refuse(codes.Unauthenticated, "the client's certificate is not accepted any more: %v", err)
	}
	r.conn.trusted.Store(a)
	return nil
}

// accessReload is the state of the reloads of Config.ReadAccess. The loading lock guards it.
type accessReload struct {
	seen  any // the files at the last look
	tried any // the files that are in force, or that were refused last
}

// refreshAccess exchanges the access if its files have changed. Unless at once, it waits for files
// that are the same at two looks, because a file may be written, and a certificate exchanged before
// its key, during the first. The caller holds loading.
func (s *Server) refreshAccess(atOnce bool) {
	if s.config.ReadAccess == nil {
		return
	}
	if atOnce {
		defer s.warnOfEnds() // also if the new files are the old ones
	}
	read, files, err := s.config.ReadAccess()
	settled := files == s.accessFiles.seen
	s.accessFiles.seen = files
	if !atOnce && !settled || files == s.accessFiles.tried && (err == nil || !atOnce) {
		return
	}
	s.accessFiles.tried = files
	if err == nil && (read.TLS == nil) != (s.access.Load().TLS == nil) {
		err = errors.New("encryption begins or ends only with a restart")
	}
	if err != nil {
		s.accessFailures.Add(1)
		s.config.Log.Error("certificates and tokens were not reloaded; the old ones stay in force", "error", err)
		return
	}
	s.access.Store(&read)
	s.config.Log.Info("certificates and tokens were reloaded")
	if !atOnce {
		s.warnOfEnds()
	}
}
