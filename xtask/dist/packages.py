#!/usr/bin/env python3
"""Makes the packages of one built binary: a tarball, two npm packages, a wheel, .deb, .mcpb and a plugin folder; and the
files that describe them to other channels (`channels.py`).

`cargo xtask dist` builds the binary and installs what this needs, and then runs it. All packages have their name, version
and description from the manifest of the binary. The files in them have the time of the last commit, and are in order, so
that the same commit gives the same bytes.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import textwrap
import zipfile
from concurrent.futures import ProcessPoolExecutor
from time import gmtime

import zopfli

import channels

TARGET = "x86_64-unknown-linux-gnu"

# The architecture in the words of Debian and of Node.
DEBIAN_ARCHITECTURE = "amd64"
NODE_PLATFORM = "linux-x64"

# The oldest C library that runs the binary.
GLIBC = (2, 17)

AUTHORS = "The steplatch authors"

# The licence of the C library, which its binaries carry along.
GLIBC_LICENCE = ("/usr/share/doc/libc6/copyright", "/usr/share/common-licenses/LGPL-2.1")

# File names of licences in the source of a package.
LICENCE_NAME = re.compile(r"(licen[cs]e|copying|notice|unlicense|copyright)", re.IGNORECASE)

# Searches of zopfli for a shorter stream. Fifteen save 0.2 % more than one.
ITERATIONS = 1

# Starts the binary of the platform's package. Signals reach it by themselves: it is in the same process group.
LAUNCHER = """\
#!/usr/bin/env node
"use strict";
const { spawnSync } = require("node:child_process");

const platform = `steplatch-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${platform}/bin/steplatch`);
} catch {
  console.error(`steplatch: there is no package for ${process.platform} on ${process.arch}, or it was not installed ` +
    `(npm install --include=optional).`);
  process.exit(1);
}
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"]) process.on(signal, () => {});
const { error, signal, status } = spawnSync(program, process.argv.slice(2), { stdio: "inherit" });
if (error) {
  console.error(`steplatch: ${program} cannot be started: ${error.message}`);
  process.exit(1);
}
if (signal) {
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
}
process.exit(status ?? 1);
"""


class Manifest:
    """What all packages say about the binary."""

    def __init__(self, root, repository):
        command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", TARGET]
        metadata = json.loads(subprocess.run(command, cwd=root, check=True, capture_output=True).stdout)
        packages = {package["id"]: package for package in metadata["packages"]}
        [own] = [package for package in packages.values() if package["name"] == "steplatch"]
        self.name, self.version = own["name"], own["version"]
        self.description, self.license = own["description"], own["license"]
        # The registries permit 80 to 100 characters.
        self.summary = self.description.partition(":")[0]
        self.archive = f"{self.name}-{self.version}-{TARGET}"
        self.is_on_crates_io = own["publish"] != []
        self.repository = (repository or own["repository"] or "").rstrip("/").removesuffix(".git")
        address = re.fullmatch(r"https://([\w.-]+)/([\w.-]+)/[\w.-]+", self.repository)
        if self.repository and not address:
            raise SystemExit(f"The address of the repository is '{self.repository}', not https://HOST/OWNER/NAME.")
        # The MCP registry has a namespace for each account of GitHub.
        self.server_name = f"io.github.{address[2]}/{self.name}" if address and address[1] == "github.com" else None
        commit = ["git", "log", "-1", "--format=%ct"]
        self.time = int(subprocess.run(commit, cwd=root, check=True, capture_output=True).stdout)
        self.dependencies = sorted(
            linked(own["id"], packages, metadata["resolve"]), key=lambda package: (package["name"], package["version"])
        )


def linked(root, packages, resolve):
    """Returns the packages of other projects that become part of the binary."""
    nodes = {node["id"]: node for node in resolve["nodes"]}
    found, waiting = set(), [root]
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            is_linked = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if is_linked and dependency["pkg"] not in found:
                found.add(dependency["pkg"])
                waiting.append(dependency["pkg"])
    # Those without a source are of this project.
    return [packages[package] for package in found if packages[package]["source"]]


def third_party_licences(manifest):
    """Returns the licence texts of the dependencies, each with the packages that it stands in."""
    packages_by_text, without_text = {}, []
    for package in manifest.dependencies:
        folder = os.path.dirname(package["manifest_path"])
        names = sorted(name for name in os.listdir(folder) if LICENCE_NAME.match(name))
        files = [os.path.join(folder, name) for name in names]
        texts = [read(file) for file in files if os.path.isfile(file) and not file.endswith((".rs", ".toml"))]
        label = f"{package['name']} {package['version']}"
        if not texts:
            without_text.append(f"{label}: {package['license'] or 'see its repository'}")
        for text in texts:
            packages_by_text.setdefault(text.strip(), []).append(label)
    parts = [f"{', '.join(labels)}\n{'=' * 72}\n\n{text}\n" for text, labels in packages_by_text.items()]
    if without_text:
        parts.append("Packages that have no file with the text of their licence:\n" + "\n".join(without_text) + "\n")
    return "\n\n".join(parts)


def bill_of_materials(manifest):
    """Returns the dependencies as CycloneDX 1.6 (<https://cyclonedx.org/docs/1.6/json/>)."""
    def component(kind, name, version, licence):
        part = {"type": kind, "name": name, "version": version, "purl": f"pkg:cargo/{name}@{version}"}
        return part | ({"licenses": [{"expression": licence.replace("/", " OR ")}]} if licence else {})
    own = component("application", manifest.name, manifest.version, manifest.license)
    components = [
        component("library", package["name"], package["version"], package["license"])
        for package in manifest.dependencies
    ]
    document = {
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {"component": own}, "components": components,
    }
    return as_json(document)


def instructions_of(program):
    """Returns what the MCP server tells a model about itself."""
    hello = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "dist", "version": "1"},
        },
    }
    with tempfile.TemporaryDirectory() as home:
        environment = {"HOME": home, "PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": home}
        # The server starts a daemon otherwise, which may come up behind the request to stop it.
        subprocess.run([program, "daemon", "start"], env=environment, capture_output=True, check=True)
        served = subprocess.run(
            [program, "mcp"], input=json.dumps(hello) + "\n", env=environment, check=True, capture_output=True, text=True
        )
        subprocess.run([program, "daemon", "stop"], env=environment, capture_output=True, check=True)
    return json.loads(served.stdout.splitlines()[0])["result"]["instructions"]


class Packages:
    """The packages, in a folder."""

    def __init__(self, manifest, root, program, mcpb, wheel, folder):
        self.manifest, self.root, self.program, self.folder = manifest, root, program, folder
        self.mcpb, self.wheel = mcpb, wheel
        self.bom = bill_of_materials(manifest)
        self.licences = {
            "LICENSE-APACHE": read(os.path.join(root, "LICENSE-APACHE")),
            "LICENSE-MIT": read(os.path.join(root, "LICENSE-MIT")),
            "LICENSES-THIRD-PARTY.txt": third_party_licences(manifest),
        }
        with open(program, "rb") as file:
            self.binary = file.read()
        self.pages, self.completions = self.help_files()

    def help_files(self):
        """Returns the manual pages and the completions, by name."""
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([self.program, "man", folder], check=True, capture_output=True)
            pages = {name: read(os.path.join(folder, name)) for name in sorted(os.listdir(folder))}
        completions = {}
        for shell in ["bash", "zsh", "fish"]:
            script = subprocess.run([self.program, "completions", shell], check=True, capture_output=True, text=True)
            completions[shell] = script.stdout
        return pages, completions

    def path(self, name):
        return os.path.join(self.folder, name)

    def make_tarball(self, name, binary, more_files=()):
        files = dict(more_files) | {"steplatch": binary, "README.md": read(os.path.join(self.root, "README.md"))}
        files |= self.licences | {"steplatch.cdx.json": self.bom}
        files |= {f"man/man1/{page}": text for page, text in self.pages.items()}
        files |= {
            "completions/steplatch.bash": self.completions["bash"],
            "completions/_steplatch": self.completions["zsh"],
            "completions/steplatch.fish": self.completions["fish"],
        }
        write_tar(self.path(f"{name}.tar.gz"), {f"{name}/{path}": content for path, content in files.items()},
                  self.manifest.time)

    def make_npm(self):
        """Makes the launcher, and the binary as a version of the same name, so that one name is published."""
        manifest = self.manifest
        about = {"name": "steplatch", "description": manifest.description, "license": manifest.license}
        binary = f"{manifest.version}-{NODE_PLATFORM}"
        system, processor = NODE_PLATFORM.split("-")
        if manifest.repository:
            # The registry compares it with the origin of the package.
            about["repository"] = {"type": "git", "url": f"git+{manifest.repository}.git"}
        launcher = about | {
            "version": manifest.version,
            "bin": {"steplatch": "bin/steplatch.js"},
            "engines": {"node": ">=18"},
            "optionalDependencies": {f"steplatch-{NODE_PLATFORM}": f"npm:steplatch@{binary}"},
        }
        if manifest.server_name:
            # The MCP registry compares it with `server.json`, as the note at the end of the wheel's description.
            launcher["mcpName"] = manifest.server_name
        write_npm(self.path(f"steplatch-{manifest.version}.tgz"), launcher, {
            "bin/steplatch.js": LAUNCHER.encode(), "README.md": read(os.path.join(self.root, "README.md")),
        } | self.licences, manifest.time)
        platform = about | {"version": binary, "os": [system], "cpu": [processor], "libc": ["glibc"]}
        write_npm(self.path(f"steplatch-{binary}.tgz"), platform, {
            "bin/steplatch": self.binary, "steplatch.cdx.json": self.bom,
        } | self.licences, manifest.time)

    def make_wheel(self):
        manifest = self.manifest
        name = f"steplatch-{manifest.version}"
        tag = f"py3-none-manylinux_{GLIBC[0]}_{GLIBC[1]}_x86_64"
        metadata = textwrap.dedent(f"""\
            Metadata-Version: 2.4
            Name: steplatch
            Version: {manifest.version}
            Summary: {manifest.description}
            License-Expression: {manifest.license}
            Classifier: Operating System :: POSIX :: Linux
            Requires-Python: >=3.8
            Description-Content-Type: text/markdown

            """) + read(os.path.join(self.root, "README.md"))
        if manifest.server_name:
            metadata += f"\n<!-- mcp-name: {manifest.server_name} -->\n"
        files = {
            f"{name}.data/scripts/steplatch": self.binary,
            f"{name}.dist-info/METADATA": metadata,
            f"{name}.dist-info/WHEEL":
                f"Wheel-Version: 1.0\nGenerator: steplatch\nRoot-Is-Purelib: false\nTag: {tag}\n",
            f"{name}.dist-info/sboms/steplatch.cdx.json": self.bom,
        }
        files |= {f"{name}.dist-info/licenses/{path}": text for path, text in self.licences.items()}
        with tempfile.TemporaryDirectory() as folder:
            write_files(folder, files, self.manifest.time)
            run([self.wheel, "pack", "--dest-dir", self.folder, folder], self.manifest.time)

    def make_deb(self):
        manifest = self.manifest
        share = "usr/share"
        copyright = f"steplatch: {manifest.license}\n\n" + "\n\n".join(self.licences.values())
        files = {
            "usr/bin/steplatch": self.binary,
            f"{share}/bash-completion/completions/steplatch": self.completions["bash"],
            f"{share}/zsh/vendor-completions/_steplatch": self.completions["zsh"],
            f"{share}/fish/vendor_completions.d/steplatch.fish": self.completions["fish"],
            f"{share}/doc/steplatch/copyright": copyright,
            f"{share}/doc/steplatch/steplatch.cdx.json": self.bom,
        }
        files |= {f"{share}/man/man1/{page}.gz": packed(text.encode()) for page, text in self.pages.items()}
        size = sum(len(as_bytes(content)) for content in files.values()) // 1024
        files["DEBIAN/control"] = textwrap.dedent(f"""\
            Package: steplatch
            Version: {manifest.version}
            Architecture: {DEBIAN_ARCHITECTURE}
            Maintainer: {AUTHORS} <steplatch@localhost>
            Installed-Size: {size}
            Depends: libc6 (>= {GLIBC[0]}.{GLIBC[1]})
            Suggests: openssh-client
            Section: utils
            Priority: optional
            Description: {manifest.description}
            """)
        with tempfile.TemporaryDirectory() as folder:
            write_files(folder, files, manifest.time)
            os.chmod(folder, 0o755)
            package = self.path(f"steplatch_{manifest.version}_{DEBIAN_ARCHITECTURE}.deb")
            run(["dpkg-deb", "--root-owner-group", "--build", folder, package], manifest.time)

    def make_mcpb(self):
        manifest = self.manifest
        document = {
            "manifest_version": "0.3", "name": "steplatch", "display_name": "Steplatch", "version": manifest.version,
            "description": manifest.description, "author": {"name": AUTHORS}, "license": manifest.license,
            "server": {
                "type": "binary", "entry_point": "server/steplatch",
                "mcp_config": {"command": "${__dirname}/server/steplatch", "args": ["mcp"]},
            },
            "compatibility": {"platforms": ["linux"]},
        }
        with tempfile.TemporaryDirectory() as folder:
            files = {"manifest.json": as_json(document), "server/steplatch": self.binary} | self.licences
            write_files(folder, files, manifest.time)
            run([*self.mcpb, "validate", os.path.join(folder, "manifest.json")], manifest.time)
            run([*self.mcpb, "pack", folder, self.path(f"steplatch-{manifest.version}.mcpb")], manifest.time)

    def make_plugin(self):
        """Makes one folder that is a plugin of Claude Code, of Gemini CLI, and of clients of Agent Plugins."""
        manifest = self.manifest
        about = {"name": "steplatch", "version": manifest.version, "description": manifest.description}
        servers = {"mcpServers": {"steplatch": {"command": "steplatch", "args": ["mcp"]}}}
        description = "Drive programs that ask questions in real terminals, and repeat what worked as a workflow."
        skill = f"---\nname: steplatch\ndescription: {description}\nlicense: {manifest.license}\n---\n\n"
        skill += f"# Steplatch\n\n{instructions_of(self.program)}\n"
        with_author = about | {"author": {"name": AUTHORS}, "license": manifest.license}
        folder = self.path("plugin")
        shutil.rmtree(folder, ignore_errors=True)
        write_files(folder, {
            ".claude-plugin/plugin.json": as_json(with_author),
            ".claude-plugin/marketplace.json": as_json({
                "name": "steplatch", "owner": {"name": AUTHORS}, "description": manifest.description,
                "plugins": [{"name": "steplatch", "source": "./", "description": manifest.description}],
            }),
            ".mcp.json": as_json(servers),
            "plugin.json": as_json(with_author),
            "mcp.json": as_json(servers),
            "gemini-extension.json": as_json(about | servers),
            "skills/steplatch/SKILL.md": skill,
        } | {name: self.licences[name] for name in ["LICENSE-APACHE", "LICENSE-MIT"]}, manifest.time)

    def shrink_all(self):
        """Compresses the packages again, at the same time."""
        files = [self.path(name) for name in sorted(os.listdir(self.folder))]
        # Threads would take turns: zopfli keeps the interpreter locked.
        with ProcessPoolExecutor() as processes:
            list(processes.map(shrink, files, [self.manifest.time] * len(files)))

    def write_channels(self):
        write_files(self.folder, channels.files(self.manifest, self.folder), self.manifest.time)

    def write_digests(self):
        names = sorted(name for name in os.listdir(self.folder) if os.path.isfile(self.path(name)))
        lines = []
        for name in names:
            with open(self.path(name), "rb") as file:
                content = file.read()
            lines.append(f"{hashlib.sha256(content).hexdigest()}  {name}\n")
            print(f"{len(content) / 1e6:6.1f} MB  {name}")
        with open(self.path("SHA256SUMS"), "w", encoding="utf8") as file:
            file.writelines(lines)


def read(path):
    with open(path, encoding="utf8", errors="replace") as file:
        return file.read()


def as_bytes(content):
    return content if isinstance(content, bytes) else content.encode()


def as_json(document):
    return json.dumps(document, indent=2) + "\n"


def packed(content):
    return gzip.compress(content, compresslevel=9, mtime=0)


def shrink(path, seconds):
    """Replaces the compressed streams of a gzip or zip file by shorter ones with the same content.

    Entries of a zip file get the time of the commit: the program that packs MCP bundles writes its own.
    """
    if path.endswith((".tar.gz", ".tgz")):
        with open(path, "rb") as file:
            content = gzip.decompress(file.read())
        compressor = zopfli.ZopfliCompressor(zopfli.ZOPFLI_FORMAT_GZIP, iterations=ITERATIONS)
        shrunk = compressor.compress(content) + compressor.flush()
    elif path.endswith((".whl", ".mcpb")):
        copied = io.BytesIO()
        with zipfile.ZipFile(path) as archive, zopfli.ZipFile(copied, "w", iterations=ITERATIONS) as copy:
            for entry in archive.infolist():
                entry.date_time, entry.extra = gmtime(seconds)[:6], b""
                copy.writestr(entry, archive.read(entry))
        shrunk = copied.getvalue()
    else:
        return
    with open(path, "wb") as file:
        file.write(shrunk)


def is_program(path, content):
    return as_bytes(content).startswith((b"\x7fELF", b"#!"))


def write_files(folder, files, time):
    for path, content in files.items():
        whole = os.path.join(folder, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "wb") as file:
            file.write(as_bytes(content))
        os.chmod(whole, 0o755 if is_program(path, content) else 0o644)
        os.utime(whole, (time, time))


def write_tar(package, files, time):
    packed_files = io.BytesIO()
    with tarfile.open(fileobj=packed_files, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(files):
            content = as_bytes(files[path])
            entry = tarfile.TarInfo(path)
            entry.size, entry.mtime = len(content), time
            entry.mode = 0o755 if is_program(path, content) else 0o644
            archive.addfile(entry, io.BytesIO(content))
    with open(package, "wb") as file:
        file.write(packed(packed_files.getvalue()))


def write_npm(package, document, files, time):
    files = {"package.json": as_json(document)} | files
    write_tar(package, {f"package/{path}": content for path, content in files.items()}, time)


def run(command, time):
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(time)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True, help="the built binary")
    parser.add_argument("--static", help="the binary with the C library in it, for a tarball of its own")
    parser.add_argument("--repository", help="the address of the repository, unless Cargo.toml has it")
    parser.add_argument("--wheel", required=True, help="the program that packs wheels")
    parser.add_argument("--mcpb", required=True, nargs="+", help="the command that packs MCP bundles")
    parser.add_argument("--folder", required=True, help="where the packages go")
    options = parser.parse_args()
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    shutil.rmtree(options.folder, ignore_errors=True)
    os.makedirs(options.folder)
    program = os.path.abspath(options.program)
    manifest = Manifest(root, options.repository)
    packages = Packages(manifest, root, program, options.mcpb, options.wheel, os.path.abspath(options.folder))
    packages.make_tarball(manifest.archive, packages.binary)
    if options.static:
        with open(options.static, "rb") as file:
            licence = {"LICENSE-GLIBC.txt": "\n\n".join(read(path) for path in GLIBC_LICENCE)}
            packages.make_tarball(f"steplatch-{manifest.version}-{NODE_PLATFORM}-static", file.read(), licence)
    packages.make_npm()
    packages.make_wheel()
    packages.make_deb()
    packages.make_mcpb()
    packages.make_plugin()
    packages.shrink_all()
    packages.write_channels()
    packages.write_digests()


if __name__ == "__main__":
    main()
