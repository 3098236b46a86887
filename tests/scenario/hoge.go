// The KEP's hoge-controller in another language: it asks the gate over HTTP at the end of each loop.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"
)

type object struct {
	APIVersion string            `json:"apiVersion,omitempty"`
	Kind       string            `json:"kind,omitempty"`
	Metadata   map[string]any    `json:"metadata"`
	Data       map[string]string `json:"data,omitempty"`
	Spec       any               `json:"spec,omitempty"`
}

type list struct {
	Items []object `json:"items"`
}

var client *http.Client
var server, token string

func ask(method, path string, body any, answer any) {
	encoded, _ := json.Marshal(body)
	request, _ := http.NewRequest(method, server+path, bytes.NewReader(encoded))
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Impersonate-User", "kscen:hoge-controller")
	request.Header.Set("Impersonate-Group", "system:masters")
	response, err := client.Do(request)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		fmt.Fprintln(os.Stderr, method, path, response.Status)
	} else if answer != nil {
		json.NewDecoder(response.Body).Decode(answer)
	}
}

func runOnce() {
	var hoges, pods list
	ask("GET", "/api/v1/namespaces/default/configmaps?labelSelector=hoge", nil, &hoges)
	ask("GET", "/api/v1/namespaces/default/pods", nil, &pods)
	there := map[string]bool{}
	for _, pod := range pods.Items {
		there[pod.Metadata["name"].(string)] = true
	}
	for _, hoge := range hoges.Items {
		count, _ := strconv.Atoi(hoge.Data["pods"])
		for number := 0; number < count; number++ {
			name := fmt.Sprintf("%s-%d", hoge.Metadata["name"], number)
			if !there[name] {
				container := map[string]any{"name": "c", "image": "pause"}
				spec := map[string]any{"containers": []any{container}}
				pod := object{APIVersion: "v1", Kind: "Pod", Metadata: map[string]any{"name": name}, Spec: spec}
				ask("POST", "/api/v1/namespaces/default/pods", pod, nil)
				return
			}
		}
	}
}

// hoge SERVER TOKEN CA-FILE GATE
func main() {
	server, token = os.Args[1], os.Args[2]
	authority, err := os.ReadFile(os.Args[3])
	if err != nil {
		panic(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	for {
		runOnce()
		if response, err := http.Get(os.Args[4] + "hoge-controller"); err == nil {
			response.Body.Close()
		} else {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
