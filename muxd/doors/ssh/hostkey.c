#include "muxd/doors/ssh/hostkey.h"

#include "base/err.h"
#include "base/slurp.h"

#include <errno.h>
#include <libssh/libssh.h>
#include <stdbool.h>
#include <unistd.h>

#define HOSTKEY_FILE_MAX 8192

/*
 * Key exchange: only what costs the loop about a millisecond; a group16 exchange would
 * block it for 16, a group-exchange for 200. Ciphers: the client's order decides, and
 * OpenSSH's begins with chacha20, which measured level with AES-GCM here (1.2 s of CPU
 * a GiB, each of the three). aes256-ctr is for clients that have none of them; it is
 * what the MACs are for.
 */
static const char kex[] = "curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256";
static const char ciphers[] = "aes256-gcm@openssh.com,aes128-gcm@openssh.com,chacha20-poly1305@openssh.com,aes256-ctr";
static const char macs[] = "hmac-sha2-256-etm@openssh.com,hmac-sha2-512-etm@openssh.com";
static const char client_keys[] = "ssh-ed25519,sk-ssh-ed25519@openssh.com,ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,"
				  "ecdsa-sha2-nistp521,sk-ecdsa-sha2-nistp256@openssh.com,rsa-sha2-512,rsa-sha2-256";

static int key_import(int fd, ssh_key *out, struct err *e)
{
	char *text = NULL;
	ssh_key key = NULL;
	size_t len = 0;
	int rc = lseek(fd, 0, SEEK_SET) < 0 ? err_sys(e, errno, "read the SSH host key")
					    : slurp_fd(fd, "the SSH host key", HOSTKEY_FILE_MAX, &text, &len, e);

	if (rc == 0 && ssh_pki_import_privkey_base64(text, NULL, NULL, NULL, &key) != SSH_OK)
		rc = err_set(e, ERR_INVAL, "the SSH host key is no private key in OpenSSH's format");
	slurp_free(text, len);
	if (rc == 0 && ssh_key_type(key) != SSH_KEYTYPE_ED25519) {
		rc = err_set(e, ERR_INVAL, "the SSH host key is %s; Ed25519 is wanted",
			     ssh_key_type_to_char(ssh_key_type(key)));
		ssh_key_free(key);
	}
	if (rc == 0)
		*out = key;
	return rc;
}

static int bind_options(ssh_bind b)
{
	static const struct {
		enum ssh_bind_options_e option;
		const char *value;
	} options[] = {
	    {SSH_BIND_OPTIONS_BANNER, "muxd_" MUXD_VERSION},
	    {SSH_BIND_OPTIONS_KEY_EXCHANGE, kex},
	    {SSH_BIND_OPTIONS_HOSTKEY_ALGORITHMS, "ssh-ed25519"},
	    {SSH_BIND_OPTIONS_CIPHERS_C_S, ciphers},
	    {SSH_BIND_OPTIONS_CIPHERS_S_C, ciphers},
	    {SSH_BIND_OPTIONS_HMAC_C_S, macs},
	    {SSH_BIND_OPTIONS_HMAC_S_C, macs},
	    {SSH_BIND_OPTIONS_PUBKEY_ACCEPTED_KEY_TYPES, client_keys},
	};
	bool system_config = false; /* what this host's libssh users configured is not ours */

	if (ssh_bind_options_set(b, SSH_BIND_OPTIONS_PROCESS_CONFIG, &system_config) != 0)
		return -1;
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (ssh_bind_options_set(b, options[i].option, options[i].value) != 0)
			return -1;
	return 0;
}

int ssh_hostkey_bind(int fd, ssh_bind *out, struct err *e)
{
	ssh_bind b = NULL;
	ssh_key key = NULL;
	int rc = key_import(fd, &key, e);

	if (rc)
		return rc;
	b = ssh_bind_new();
	if (!b) {
		rc = err_set(e, ERR_NOMEM, "no memory for the SSH door");
		goto out;
	}
	if (bind_options(b) != 0 || ssh_bind_options_set(b, SSH_BIND_OPTIONS_IMPORT_KEY, key) != 0) {
		rc = err_set(e, ERR_INTERNAL, "libssh refuses the SSH door's options: %s", ssh_get_error(b));
		goto out;
	}
	key = NULL; /* the bind's */
	*out = b;
	b = NULL;
out:
	ssh_key_free(key);
	ssh_bind_free(b);
	return rc;
}

int ssh_hostkey_session(ssh_session s, uint64_t rekey_bytes)
{
	if (ssh_options_set(s, SSH_OPTIONS_COMPRESSION_C_S, "none") != 0 ||
	    ssh_options_set(s, SSH_OPTIONS_COMPRESSION_S_C, "none") != 0)
		return ERR_INTERNAL;
	if (rekey_bytes && ssh_options_set(s, SSH_OPTIONS_REKEY_DATA, &rekey_bytes) != 0)
		return ERR_INTERNAL;
	return 0;
}
