// render.go: the chart's objects by Go's own text/template and sprig, which Helm is made of: what tests/lib/chart.py, the tests'
// reader of templates, is compared with. It follows the rules of Helm's documentation (the chart template guide: built-in objects,
// functions, named templates, files, values files, schema apart) for charts without dependencies.
//
// Not run by it, because it is not Helm: installing, upgrading, rollback, hooks and their order, waiting, tests, lookup in a real
// cluster (there is none here, and Helm's own `template` answers with nothing, too), subcharts, post-renderers, plugins, and the
// check of values.schema.json, which the story does by python3-jsonschema.
//
// render [-name muxd] [-namespace muxd] [-kube-version v1.30.0] [-api-versions a,b] [-f values.yaml]... CHART
// Prints {"templates": {file: [object...]}, "notes": text} as JSON; what Helm would refuse is one line on stderr, and status 1.
package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/semver"
	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

type object = map[string]interface{}

// What Helm takes a cluster for that it does not ask, as far as the chart asks for it.
const known = "v1,apps/v1,policy/v1,policy/v1beta1,networking.k8s.io/v1,rbac.authorization.k8s.io/v1"

// As deep as Helm lets templates include each other.
const deepest = 1000

type versions []string

// Has is .Capabilities.APIVersions.Has: of a group's version, or of a kind in it.
func (v versions) Has(name string) bool {
	for _, s := range v {
		if s == name {
			return true
		}
	}
	return false
}

type kubeVersion struct{ Version, Major, Minor string }

func (k kubeVersion) String() string     { return k.Version }
func (k kubeVersion) GitVersion() string { return k.Version }

type capabilities struct {
	KubeVersion kubeVersion
	APIVersions versions
	HelmVersion object
}

// files is .Files: what lies in the chart and is no template.
type files map[string][]byte

func (f files) GetBytes(name string) []byte { return f[name] }
func (f files) Get(name string) string      { return string(f[name]) }
func (f files) Lines(name string) []string {
	if len(f[name]) == 0 {
		return []string{}
	}
	return strings.Split(strings.TrimSuffix(string(f[name]), "\n"), "\n")
}
func (f files) Glob(pattern string) files {
	out := files{}
	for name, data := range f {
		if ok, err := path.Match(pattern, name); err == nil && ok {
			out[name] = data
		}
	}
	return out
}
func (f files) AsConfig() string {
	out := map[string]string{}
	for name, data := range f {
		out[path.Base(name)] = string(data)
	}
	return toYaml(out)
}
func (f files) AsSecrets() string {
	out := map[string]string{}
	for name, data := range f {
		out[path.Base(name)] = base64.StdEncoding.EncodeToString(data)
	}
	return toYaml(out)
}

func toYaml(v interface{}) string {
	data, err := yaml.Marshal(v)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(data), "\n")
}

func toJSON(v interface{}) string {
	data, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(data)
}

func fromYaml(text string) object {
	out := object{}
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		out["Error"] = err.Error()
	}
	return out
}

func fromYamlArray(text string) []interface{} {
	out := []interface{}{}
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		out = []interface{}{err.Error()}
	}
	return out
}

func required(message string, v interface{}) (interface{}, error) {
	if v == nil {
		return v, errors.New(message)
	}
	if s, ok := v.(string); ok && s == "" {
		return v, errors.New(message)
	}
	return v, nil
}

// engine renders templates that can include each other, and themselves be made of values (tpl).
type engine struct {
	all   *template.Template
	depth map[string]int
}

func (e *engine) include(t *template.Template, name string, data interface{}) (string, error) {
	var out bytes.Buffer
	if e.depth[name]++; e.depth[name] > deepest {
		return "", fmt.Errorf("%s includes itself for ever", name)
	}
	defer func() { e.depth[name]-- }()
	err := t.ExecuteTemplate(&out, name, data)
	return strings.ReplaceAll(out.String(), "<no value>", ""), err
}

func (e *engine) tpl(parent *template.Template, text string, data interface{}) (string, error) {
	t, err := parent.Clone()
	if err != nil {
		return "", err
	}
	e.functions(t)
	if t, err = t.New("tpl").Parse(text); err != nil {
		return "", err
	}
	return e.include(t, "tpl", data)
}

func (e *engine) functions(t *template.Template) {
	f := sprig.TxtFuncMap()
	delete(f, "env")
	delete(f, "expandenv")
	f["toYaml"], f["toJson"], f["fromYaml"], f["fromJson"], f["fromYamlArray"], f["fromJsonArray"] = toYaml, toJSON, fromYaml, fromYaml, fromYamlArray, fromYamlArray
	f["required"] = required
	f["lookup"] = func(_, _, _, _ string) object { return object{} }
	f["include"] = func(name string, data interface{}) (string, error) { return e.include(t, name, data) }
	f["tpl"] = func(text string, data interface{}) (string, error) { return e.tpl(t, text, data) }
	t.Funcs(f)
}

// merge lays values over those of the chart; null takes one away.
func merge(into, from object) object {
	for k, v := range from {
		inner, isMap := v.(object)
		below, wasMap := into[k].(object)
		switch {
		case v == nil:
			delete(into, k)
		case isMap && wasMap:
			into[k] = merge(below, inner)
		default:
			into[k] = v
		}
	}
	return into
}

func readYaml(name string) (object, error) {
	out := object{}
	data, err := os.ReadFile(name)
	if err == nil {
		err = yaml.UnmarshalStrict(data, &out)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return out, err
}

// chartOf gives .Chart, whose fields begin with capitals.
func chartOf(meta object) object {
	out := object{}
	for k, v := range meta {
		if k != "apiVersion" {
			k = strings.ToUpper(k[:1]) + k[1:]
		} else {
			k = "APIVersion"
		}
		out[k] = v
	}
	return out
}

func checkVersion(meta object, kube string) error {
	wanted, _ := meta["kubeVersion"].(string)
	if wanted == "" {
		return nil
	}
	c, err := semver.NewConstraint(wanted)
	if err != nil {
		return fmt.Errorf("Chart.yaml: kubeVersion: %w", err)
	}
	v, err := semver.NewVersion(kube)
	if err != nil {
		return err
	}
	if !c.Check(v) {
		return fmt.Errorf("chart requires kubeVersion: %s which is incompatible with Kubernetes %s", wanted, kube)
	}
	return nil
}

// load reads templates into the engine, and the rest into .Files.
func (e *engine) load(chart string) ([]string, files, error) {
	names, others := []string{}, files{}
	err := filepath.WalkDir(chart, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(chart, p)
		if err != nil {
			return err
		}
		switch {
		case strings.HasPrefix(name, "templates/"):
			names = append(names, name)
			_, err = e.all.New(name).Parse(string(data))
		case name != "Chart.yaml" && name != "values.yaml" && name != "values.schema.json":
			others[name] = data
		}
		return err
	})
	sort.Strings(names)
	return names, others, err
}

var documents = regexp.MustCompile(`(?:^|\s*\n)---\s*`)

func objects(text string) ([]object, error) {
	out := []object{}
	for _, part := range documents.Split(text, -1) {
		o := object{}
		if err := yaml.UnmarshalStrict([]byte(part), &o); err != nil {
			return nil, err
		}
		if len(o) > 0 {
			out = append(out, o)
		}
	}
	return out, nil
}

type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

func run() error {
	var given list
	name := flag.String("name", "muxd", "of the release")
	namespace := flag.String("namespace", "muxd", "of the release")
	kube := flag.String("kube-version", "v1.30.0", "of the cluster")
	served := flag.String("api-versions", known, "what the cluster serves")
	flag.Var(&given, "f", "a file of values")
	flag.Parse()
	chart := filepath.Clean(flag.Arg(0))

	meta, err := readYaml(filepath.Join(chart, "Chart.yaml"))
	if err != nil {
		return err
	}
	if err = checkVersion(meta, *kube); err != nil {
		return err
	}
	values, err := readYaml(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return err
	}
	for _, f := range given {
		more, err := readYaml(f)
		if err != nil {
			return err
		}
		values = merge(values, more)
	}
	e := &engine{all: template.New("chart").Option("missingkey=zero"), depth: map[string]int{}}
	e.functions(e.all)
	names, others, err := e.load(chart)
	if err != nil {
		return err
	}
	v, err := semver.NewVersion(*kube)
	if err != nil {
		return err
	}
	root := object{
		"Values":  values,
		"Chart":   chartOf(meta),
		"Files":   others,
		"Release": object{"Name": *name, "Namespace": *namespace, "Service": "Helm", "IsInstall": true, "IsUpgrade": false, "Revision": 1},
		"Capabilities": capabilities{
			KubeVersion: kubeVersion{*kube, fmt.Sprint(v.Major()), fmt.Sprint(v.Minor())},
			APIVersions: strings.Split(*served, ","), HelmVersion: object{"Version": "v3"}},
	}
	templates, notes := map[string][]object{}, ""
	for _, n := range names {
		base := path.Base(n)
		if strings.HasPrefix(base, "_") {
			continue
		}
		root["Template"] = object{"Name": fmt.Sprintf("%s/%s", meta["name"], n), "BasePath": fmt.Sprintf("%s/templates", meta["name"])}
		text, err := e.include(e.all, n, root)
		if err != nil {
			return err
		}
		if base == "NOTES.txt" {
			notes = text
			continue
		}
		if templates[base], err = objects(text); err != nil {
			return fmt.Errorf("%s: %w", n, err)
		}
	}
	return json.NewEncoder(os.Stdout).Encode(object{"templates": templates, "notes": notes})
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, strings.ReplaceAll(err.Error(), "\n", " "))
		os.Exit(1)
	}
}
