"""Checks the files that describe the packages to other channels against the packages beside them, without a network.

Programs that know a format better are used where they are installed; a line names each check that was not possible.
"""

import email
import json
import os
import re
import shlex
import shutil
import subprocess
import tarfile
import zipfile

from channels import SERVER_SCHEMA, digest

INSTRUCTIONS = ("ADD", "CMD", "COPY", "ENTRYPOINT", "ENV", "FROM", "LABEL", "RUN", "USER", "WORKDIR")

# The fields of `server.json`, and of its packages, that these packages need.
SERVER_FIELDS = {"$schema", "name", "title", "description", "repository", "version", "packages"}
PACKAGE_FIELDS = {"registryType", "identifier", "version", "fileSha256", "packageArguments", "transport"}


class Broken(Exception):
    """A package, or a file about it, that does not do what its user expects."""


def expect(condition, fault):
    if not condition:
        raise Broken(fault)


def check_channels(folder, version):
    """Checks each file that is in the folder."""
    checks = {
        "Dockerfile": check_dockerfile, "flake.nix": check_flake, "steplatch.rb": check_formula,
        "server.json": check_server,
    }
    for name, check in checks.items():
        if not os.path.exists(os.path.join(folder, name)):
            print(f"{name} was not written, and is not checked")
            continue
        with open(os.path.join(folder, name), encoding="utf8") as file:
            text = file.read()
        try:
            print(f"{name}: {check(folder, version, text)}")
        except Broken as broken:
            raise Broken(f"{name}: {broken}") from None
        except (AttributeError, LookupError, ValueError) as fault:
            raise Broken(f"{name} lacks a part that it needs: {fault!r}") from fault


def check_dockerfile(folder, _version, text):
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
    instructions = [tuple(line.split(maxsplit=1)) for line in lines]
    unknown = [line for line, entry in zip(lines, instructions) if len(entry) != 2 or entry[0] not in INSTRUCTIONS]
    expect(not unknown, f"unknown instructions: {unknown}")
    expect(instructions[0][0] == "FROM", "it does not begin with its base")
    for word, rest in instructions:
        if word in ("ADD", "COPY"):
            for source in shlex.split(rest)[:-1]:
                expect(os.path.exists(os.path.join(folder, source)), f"there is no {source} to copy")
        if word == "RUN":
            done = subprocess.run(["sh", "-n", "-c", rest], capture_output=True, text=True, check=False)
            expect(done.returncode == 0, done.stderr)
    last = dict(instructions)
    expect(last.get("USER", "root") not in ("root", "0"), "it runs as root")
    expect(json.loads(last["ENTRYPOINT"]) == ["steplatch"], "it starts another program")
    return "instructions and sources are right; the image was not built"


def check_flake(folder, version, text):
    # Without its strings, whose brackets are text.
    bare = re.sub(r"''.*?''|\"[^\"]*\"|#[^\n]*", '""', text, flags=re.DOTALL)
    opened = []
    for bracket in re.findall(r"[()\[\]{}]", bare):
        if bracket in "([{":
            opened.append(bracket)
        else:
            expect(opened and opened.pop() + bracket in ("()", "[]", "{}"), f"a {bracket} closes nothing")
    expect(not opened, f"{opened} are not closed")
    expect(f'version = "{version}";' in text, "it has another version")
    local = re.search(r"src = \./(\S+);", text)
    if local:
        expect(os.path.exists(os.path.join(folder, local[1])), f"there is no {local[1]}")
    else:
        check_download(folder, version, *re.search(r'url = "(.*?)"; sha256 = "(.*?)";', text).groups())
    return "brackets, version and source are right; " + parsed(folder, "nix-instantiate", "--parse", "flake.nix")


def check_formula(folder, version, text):
    expect(f'version "{version}"' in text, "it has another version")
    check_download(folder, version, *re.search(r'url "(.*?)".*sha256 "(.*?)"', text, re.DOTALL).groups())
    expect(len(re.search(r'desc "(.*)"', text)[1]) <= 80, "its description is too long")
    return "version and digest are right; " + parsed(folder, "ruby", "-c", "steplatch.rb")


def check_server(folder, version, text):
    server = json.loads(text)
    expect(set(server) == SERVER_FIELDS, f"its fields are {sorted(server)}")
    expect(server["$schema"] == SERVER_SCHEMA, "it has another schema")
    name = server["name"]
    expect(re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", name) and len(name) <= 200, f"its name is '{name}'")
    expect(0 < len(server["description"]) <= 100, "its description has not 1 to 100 characters")
    expect(server["version"] == version, f"its version is {server['version']}")
    _, _, host, owner, _ = server["repository"]["url"].split("/")
    expect(server["repository"]["source"] == "github" and host == "github.com", "its repository is elsewhere")
    expect(name == f"io.github.{owner}/steplatch", f"'{name}' is no name of the owner of the repository")
    for package in server["packages"]:
        kind = package["registryType"]
        expect(set(package) <= PACKAGE_FIELDS, f"the fields of {kind} are {sorted(package)}")
        expect(package["transport"] == {"type": "stdio"}, f"{kind} has another transport")
        if kind == "mcpb":
            expect("version" not in package, "the version of a bundle is within it")
            check_download(folder, version, package["identifier"], package["fileSha256"])
            continue
        published, note = PUBLISHED[kind](folder, version)
        listed = (package["identifier"], package["version"])
        expect(listed == published, f"{kind} is {listed}, and its package {published}")
        expect(re.search(rf"(^|mcp-name: ){re.escape(name)}(\s|$)", note), f"the package of {kind} does not name {name}")
        expect([argument["value"] for argument in package["packageArguments"]] == ["mcp"], f"{kind} starts no server")
    kinds = [package["registryType"] for package in server["packages"]]
    expect(kinds in (["npm", "pypi", "mcpb"], ["npm", "pypi", "cargo", "mcpb"]), f"its packages are {kinds}")
    return f"fields, names, versions and digests of {', '.join(kinds)} are right; the registry was not queried"


def npm_package(folder, version):
    with tarfile.open(os.path.join(folder, f"steplatch-{version}.tgz")) as archive:
        about = json.load(archive.extractfile("package/package.json"))
    return (about["name"], about["version"]), about.get("mcpName", "")


def wheel(folder, version):
    [name] = [name for name in os.listdir(folder) if name.endswith(".whl")]
    with zipfile.ZipFile(os.path.join(folder, name)) as archive:
        about = email.message_from_bytes(archive.read(f"steplatch-{version}.dist-info/METADATA"))
    return (about["Name"], about["Version"]), about.get_payload()


def crate(_folder, version):
    # crates.io shows the page of the repository, without its comments.
    with open(os.path.join(os.path.dirname(__file__), "../../README.md"), encoding="utf8") as file:
        return ("steplatch", version), re.sub(r"<!--.*?-->", "", file.read(), flags=re.DOTALL)


# Readers of the packages, which return their name and version, and the text with the name of the server.
PUBLISHED = {"npm": npm_package, "pypi": wheel, "cargo": crate}


def check_download(folder, version, url, expected):
    """Checks that the address is that of a file of the release, and that the file beside this one has the digest."""
    expect(url.startswith("https://"), f"{url} is not encrypted")
    before, _, name = url.rpartition("/")
    expect(before.endswith(f"/releases/download/v{version}"), f"{url} is not of the release {version}")
    expect(os.path.exists(os.path.join(folder, name)), f"there is no {name}")
    expect(digest(folder, name) == expected, f"the digest of {name} is another")


def parsed(folder, program, *arguments):
    """Has a program parse a file, if it is installed."""
    if not shutil.which(program):
        return f"there is no {program} to parse it"
    done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    expect(done.returncode == 0, done.stdout + done.stderr)
    return f"{program} parses it"
