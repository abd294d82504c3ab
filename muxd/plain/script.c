#include "muxd/plain/script.h"

#include "base/err.h"
#include "muxd/link/frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* head and dd are tried for what feeding needs: to take so many bytes from a pipe, and not one more. */
static const char probe_script[] =
    "p=0 h=0 d=0 b=0\n"
    "if [ -r /proc/$$/stat ]; then p=1; fi\n"
    "x=$(printf 'abcdef' | { head -c 3; read -r r; [ \"$r\" = def ] && echo x; } 2>/dev/null)\n"
    "if [ \"$x\" = abcx ]; then h=1; fi\n"
    "x=$(printf 'abcdef' | { dd bs=3 count=1 iflag=fullblock; read -r r; [ \"$r\" = def ] && echo x; } 2>/dev/null)\n"
    "if [ \"$x\" = abcx ]; then d=1; fi\n"
    "if [ -x /bin/bash ] && /bin/bash -c : 2>/dev/null; then b=1; fi\n"
    "echo \"muxd probe $p $h $d $b\"\n";

/*
 * $1 mark, $2 daemon's tag, $3 cwd or "", $4 feed, $5 and $6 columns and rows of a terminal or 0, $7 number of
 * variables, then those, then argv. Its own variables begin with _muxd_ and are not exported. What /proc says is read
 * before the caller's IFS or PATH come into force.
 */
static const char start_script[] =
    "_muxd_m=$1 _muxd_o=$2 _muxd_c=$3 _muxd_f=$4 _muxd_x=$5 _muxd_y=$6 _muxd_n=$7; shift 7\n"
    /* The runtime sets the size a little later; who looks at once would see none. */
    "[ \"$_muxd_x\" = 0 ] || stty cols \"$_muxd_x\" rows \"$_muxd_y\" 2>/dev/null\n"
    "_muxd_t='0 0 0 0'\n"
    "_muxd_r() { _muxd_g=$3 _muxd_s=$4; shift 19; _muxd_t=\"$$ $_muxd_g $_muxd_s $1\"; }\n"
    "_muxd_l=\n"
    "{ read -r _muxd_l </proc/$$/stat; } 2>/dev/null\n"
    "if [ -n \"$_muxd_l\" ]; then set -f; _muxd_r ${_muxd_l##*) }; set +f; fi\n"
    "while [ \"$_muxd_n\" -gt 0 ]; do export \"$1\" || exit 126; shift; _muxd_n=$((_muxd_n-1)); done\n"
    "export \"MUXD_CHANNEL=$_muxd_m\" \"MUXD_OWNER=$_muxd_o\"\n"
    "if [ -n \"$_muxd_c\" ] && ! cd \"$_muxd_c\" 2>/dev/null; then\n"
    "	_muxd_e=13; [ -e \"$_muxd_c\" ] || _muxd_e=2; [ ! -e \"$_muxd_c\" ] || [ -d \"$_muxd_c\" ] || _muxd_e=20\n"
    "	echo \"muxd cwd $_muxd_e\"; exit 126\n"
    "fi\n"
    "_muxd_e=2\n"
    "case $1 in\n"
    "*/*)\n"
    "	if [ -d \"$1\" ]; then _muxd_e=13; elif [ -x \"$1\" ]; then _muxd_e=0; elif [ -e \"$1\" ]; then _muxd_e=13; "
    "fi;;\n"
    "?*)\n"
    "	_muxd_l=$PATH:\n"
    "	while [ -n \"$_muxd_l\" ] && [ $_muxd_e != 0 ]; do\n"
    "		_muxd_d=${_muxd_l%%:*}; _muxd_l=${_muxd_l#*:}; _muxd_d=${_muxd_d:-.}/$1\n"
    "		if [ ! -f \"$_muxd_d\" ]; then :; elif [ -x \"$_muxd_d\" ]; then _muxd_e=0; else _muxd_e=13; fi\n"
    "	done;;\n"
    "esac\n"
    "if [ $_muxd_e != 0 ]; then echo \"muxd exec $_muxd_e\"; exit 127; fi\n"
    "case $_muxd_f in\n"
    /* A command behind & would have /dev/null for stdin: so 3. Who reads the pieces must hold neither stdout nor
     * stderr, for the exec lasts as long as somebody does; it ends when stdin does. The signals are the program's
     * alone. */
    "[12])\n"
    "	echo \"muxd started $_muxd_t\"\n"
    "	trap : HUP INT QUIT TERM USR1 USR2 ALRM\n"
    "	exec 3<&0\n"
    "	{ {\n"
    "		trap '' HUP INT QUIT TERM USR1 USR2 ALRM PIPE\n"
    "		while read -r _muxd_n && [ \"$_muxd_n\" -gt 0 ]; do\n"
    "			if [ $_muxd_f = 1 ]; then head -c \"$_muxd_n\"; else dd bs=\"$_muxd_n\" count=1 "
    "iflag=fullblock; fi || break\n"
    "		done\n"
    "	} <&3 3<&- 2>/dev/null & } | { exec 3<&-; exec \"$@\"; }\n"
    "	exit;;\n"
    "esac\n"
    "if [ \"${_muxd_s:-$$}\" != $$ ] && [ \"$_muxd_g\" != $$ ] && command -v setsid >/dev/null 2>&1; then\n"
    "	echo \"muxd started $$ $$ $$ ${_muxd_t##* }\"; exec setsid \"$@\"\n"
    "fi\n"
    "echo \"muxd started $_muxd_t\"\n"
    "exec \"$@\"\n";

/*
 * $1 daemon's tag, then for each target: its mark, its leader's pid (0: not known), that one's start time, signals. A
 * tree is who carries the mark, who is in the leader's session (unless its number is another's by now), and who
 * descends from one that belongs. The target `-` is what an earlier life of this daemon left: who carries the tag and
 * has no parent in here leads a session that nobody can reach any more; what belongs to it is found by its mark.
 * Zombies are dead. Each answer is the number of processes that were found, then signalled.
 */
static const char sweep_script[] =
    "set -f; o=$1; shift; I=$IFS\n"
    /* the bytes of a file without its NULs; a name in stat may hold a line break */
    "slurp() { e=; while IFS= read -r v || [ -n \"$v\" ]; do e=\"$e$v \"; v=; done <\"$1\"; }\n"
    "fields() { S=$1 P=$2 G=$3 N=$4 T=$6; shift 19; B=$1; }\n"
    "one() {\n"
    "	m=$1 l=$2 b=$3 g=$4 k=' '\n"
    "	case $g in g*)\n" /* the foreground group of its terminal, or its own group */
    "		if slurp /proc/$l/stat 2>/dev/null; then\n"
    "			fields ${e##*) }\n"
    "			[ \"$B\" = \"$b\" ] || { echo muxd left 0; return; }\n"
    "			[ \"$T\" -gt 1 ] || T=$G\n"
    "			[ \"$T\" -gt 1 ] && kill -${g#g} -$T && { echo muxd left 1; return; }\n"
    "		fi 2>/dev/null\n"
    "		echo muxd left 0; return;;\n"
    "	esac\n"
    "	for t in $tab; do\n" /* a leader's number that another process has now */
    "		IFS=:; set -- $t; IFS=$I\n"
    "		if [ \"$1\" = \"$l\" ] && [ \"$4\" != \"$b\" ]; then l=0; fi\n"
    "	done\n"
    "	a=1\n"
    "	while [ $a = 1 ]; do\n"
    "		a=0\n"
    "		for t in $tab; do\n"
    "			IFS=:; set -- $t; IFS=$I\n"
    "			case $k in *\" $1 \"*) continue;; esac\n"
    "			if [ \"$5\" = \"$m\" ]; then :\n"
    "			elif [ \"$l\" != 0 ] && { [ \"$1\" = \"$l\" ] || [ \"$3\" = \"$l\" ]; }; then :\n"
    "			else case $k in *\" $2 \"*) ;; *) continue;; esac\n"
    "			fi\n"
    "			k=\"$k$1 \" a=1\n"
    "		done\n"
    "	done\n"
    "	n=0\n"
    "	for p in $k; do\n"
    "		[ $p != $$ ] || continue\n"
    "		for s in $g; do kill -$s $p; done 2>/dev/null\n"
    "		n=$((n+1))\n"
    "	done\n"
    "	echo muxd left $n\n"
    "}\n"
    "tab= stale=\n"
    "set +f; all=$(echo /proc/[0-9]*/stat); set -f\n"
    "for d in $all; do\n"
    /* no memory of its own: dead, and in some pods there are thousands; a shell reads byte by byte */
    "	q=; read -r q <${d}m || continue; case $q in '0 '*) continue;; esac\n"
    "	slurp $d || continue\n"
    "	fields ${e##*) }; p=${d#/proc/}; p=${p%/stat}\n"
    "	case $S in [ZX]) continue;; esac\n"
    "	slurp ${d%stat}environ\n"
    "	c=-; case $e in *MUXD_CHANNEL=????????????????????????????????????*)\n"
    "		c=${e##*MUXD_CHANNEL=}; c=${c%\"${c#????????????????????????????????????}\"};;\n"
    "	esac\n"
    "	case $c in *[!0-9a-f-]*) c=-;; esac\n"
    "	case $e in *\"MUXD_OWNER=$o\"*) if [ \"$P\" = 0 ] && [ $c != - ]; then stale=\"$stale $c\"; fi;; esac\n"
    "	tab=\"$tab $p:$P:$N:$B:$c\"\n"
    "done 2>/dev/null\n"
    "if [ -z \"$tab\" ]; then echo muxd blind; exit 1; fi\n"
    "while [ $# -ge 4 ]; do\n"
    "	if [ \"$1\" = - ]; then\n"
    "		z=0 y=$4; for c in $stale; do one $c 0 0 \"$y\" >/dev/null; z=$((z+n)); done; echo muxd left $z\n"
    "	else one \"$1\" \"$2\" \"$3\" \"$4\"; fi\n"
    "	shift 4\n"
    "done\n";

/* ---- argument lists */

void script_words_finish(struct script_words *w)
{
	free(w->v);
	free(w->own);
	memset(w, 0, sizeof(*w));
}

static int script_begin(struct script_words *w, size_t more)
{
	memset(w, 0, sizeof(*w));
	w->v = calloc(more + SCRIPT_WORDS_FIXED, sizeof(*w->v));
	return w->v ? 0 : ERR_NOMEM;
}

static void script_add(struct script_words *w, const char *word)
{
	w->v[w->n++] = word;
}

static void add_script(struct script_words *w, const char *shell, const char *text)
{
	script_add(w, shell);
	script_add(w, "-c");
	script_add(w, text);
	script_add(w, "muxd");
}

static const char *add_list(struct script_words *w, const char *at, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++, at += strlen(at) + 1)
		script_add(w, at);
	return at;
}

int script_probe(const char *shell, struct script_words *out)
{
	if (script_begin(out, 0))
		return ERR_NOMEM;
	add_script(out, shell, probe_script);
	return 0;
}

int script_start(const struct script_start *s, const struct frame_open *o, struct script_words *out)
{
	static const char *const feeds[] = {"0", "1", "2"};
	const char *env = o->strings;

	if (script_begin(out, (size_t)o->argc + o->envc) || !(out->own = malloc(48)))
		goto fail;
	for (uint32_t i = 0; i < o->argc; i++)
		env += strlen(env) + 1;
	snprintf(out->own, 48, "%u%c%u%c%u", o->flags & OPEN_PTY ? o->cols : 0, 0, o->rows, 0, o->envc);
	add_script(out, s->shell, start_script);
	script_add(out, s->mark);
	script_add(out, s->owner);
	script_add(out, o->cwd);
	script_add(out, feeds[s->feed]);
	add_list(out, out->own, 3);
	add_list(out, env, o->envc);
	script_add(out, o->strings[0] ? o->strings : s->login);
	if (o->flags & OPEN_LOGIN)
		script_add(out, "-l");
	add_list(out, o->strings + strlen(o->strings) + 1, o->argc - 1);
	return 0;
fail:
	script_words_finish(out);
	return ERR_NOMEM;
}

int script_bare(const struct frame_open *o, struct script_words *out)
{
	if (script_begin(out, o->argc))
		return ERR_NOMEM;
	add_list(out, o->strings, o->argc);
	return 0;
}

bool script_may_visit(const struct frame_open *o)
{
	static const char *const known[] = {"--put", "--get", "--fs", "--dial"};
	const char *what = o->argc > 1 ? o->strings + strlen(o->strings) + 1 : "";

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(what, known[i]) == 0)
			return true;
	return false;
}

int script_visit(const char *muxlet, const struct frame_open *o, struct script_words *out)
{
	if (script_begin(out, o->argc))
		return ERR_NOMEM;
	script_add(out, muxlet);
	script_add(out, "--visit");
	script_add(out, "1");
	if (o->flags & OPEN_STDIN)
		script_add(out, "--framed");
	add_list(out, o->strings + strlen(o->strings) + 1, o->argc - 1);
	return 0;
}

int script_sweep(const char *shell, const char *owner, const struct script_target *t, size_t n,
		 struct script_words *out)
{
	const size_t size = 96; /* the four words of a target */

	if (script_begin(out, 4 * n) || !(out->own = malloc(n * size + 1)))
		goto fail;
	add_script(out, shell, sweep_script);
	script_add(out, owner);
	for (size_t i = 0; i < n; i++) {
		char *own = out->own + i * size;

		/* bytes: our own words, with NUL between them */
		snprintf(own, size, "%s%c%lld%c%s%c%s", t[i].mark, 0, (long long)t[i].pid, 0,
			 t[i].start[0] ? t[i].start : "0", 0, t[i].signals);
		add_list(out, own, 4);
	}
	return 0;
fail:
	script_words_finish(out);
	return ERR_NOMEM;
}

bool script_name_ok(const char *entry)
{
	/* Shells do not let these be set, and end when one tries. */
	static const char *const kept[] = {"UID", "EUID", "PPID", "BASHOPTS", "SHELLOPTS", "BASH_VERSINFO"};
	size_t n = strcspn(entry, "=");

	if (n == 0 || entry[n] != '=' || (entry[0] >= '0' && entry[0] <= '9') ||
	    strspn(entry, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") != n)
		return false;
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		if (strlen(kept[i]) == n && strncmp(kept[i], entry, n) == 0)
			return false;
	return strncmp(entry, "_muxd_", 6) != 0;
}
