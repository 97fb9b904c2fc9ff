package echo

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// talk answers one stream connection, whatever the client speaks.
func (s *Server) talk(name string, c net.Conn) {
	sentence := Sentence(name, c.LocalAddr(), c.RemoteAddr())
	in := bufio.NewReader(c)
	for first := true; ; first = false {
		if speaksHTTP(in) {
			if !s.answerRequest(name, sentence, in, c) {
				return
			}
			continue
		}
		line, err := in.ReadString('\n')
		if line != "" || first {
			if _, err := io.WriteString(c, sentence); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// speaksHTTP looks at the next bytes without taking them.
func speaksHTTP(in *bufio.Reader) bool {
	for _, method := range []string{"GET ", "HEAD ", "POST ", "PUT "} {
		for n := 1; ; n++ {
			start, err := in.Peek(n)
			if err != nil || !strings.HasPrefix(method, string(start)) {
				break
			}
			if n == len(method) {
				return true
			}
		}
	}
	return false
}

// answerRequest reports whether the connection goes on.
func (s *Server) answerRequest(name, sentence string, in *bufio.Reader, out io.Writer) bool {
	request, err := http.ReadRequest(in)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, request.Body)
	status, text := http.StatusOK, sentence
	if request.URL.Path == "/healthz" {
		status, text = s.health(name, request)
	}
	response := http.Response{
		StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Request: request, Close: request.Close,
		Header:        http.Header{"Content-Type": {"text/plain; charset=utf-8"}},
		ContentLength: int64(len(text)), Body: io.NopCloser(strings.NewReader(text)),
	}
	return response.Write(out) == nil && !request.Close
}

func (s *Server) health(name string, request *http.Request) (status int, text string) {
	if wish := request.FormValue("ready"); wish != "" {
		ready, err := strconv.ParseBool(wish)
		if err != nil {
			return http.StatusBadRequest, "ready: must be true or false\n"
		}
		s.SetReady(name, ready)
		return http.StatusOK, name + " is " + readyWord(ready) + " now\n"
	}
	if ready := s.ready[name].Load(); !ready {
		return http.StatusServiceUnavailable, name + " is " + readyWord(ready) + "\n"
	}
	return http.StatusOK, name + " is " + readyWord(true) + "\n"
}

func readyWord(ready bool) string {
	if ready {
		return "ready"
	}
	return "not ready"
}
